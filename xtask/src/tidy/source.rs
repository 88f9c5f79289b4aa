//! Rules for Rust files: short, with a module comment, without unfinished code.

use super::Finding;
use super::tree::File;

/// The maximum number of lines per file. A longer file contains more than one concept.
const LINES_MAX: usize = 600;

// Each mark is split, so that this file passes its own check.
const UNFINISHED: &[(&str, &str)] = &[
    (concat!("to", "do!"), "is not finished"),
    (concat!("unimple", "mented!"), "is not finished"),
    (concat!("FIX", "ME"), "is not finished: fix it or open an issue"),
    (concat!("XX", "X"), "is not finished: fix it or open an issue"),
    (concat!("#[ig", "nore"), "hides a test: make it fast or remove it"),
];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    let lines = file.text.lines().count();
    if lines > LINES_MAX {
        let what = format!("has {lines} lines, more than {LINES_MAX}: split it by concept");
        findings.push(Finding::new(file, 0, what));
    }
    if is_source(&file.path) && !is_introduced(file) {
        findings.push(Finding::new(file, 1, "does not start with `//!` and a description"));
    }
    for (index, line) in file.text.lines().enumerate() {
        for (mark, why) in UNFINISHED.iter().filter(|(mark, _)| line.contains(mark)) {
            findings.push(Finding::new(file, index + 1, format!("`{mark}` {why}")));
        }
    }
}

fn is_source(path: &str) -> bool {
    path.starts_with("src/") || path.contains("/src/")
}

/// Returns `true` if the file starts with `//!`. In a crate root, attributes may come first.
fn is_introduced(file: &File) -> bool {
    let is_root = file.path.ends_with("src/lib.rs") || file.path.ends_with("src/main.rs");
    let attribute = |line: &&str| is_root && (line.starts_with("#![") || line.is_empty());
    file.text.lines().find(|line| !attribute(line)).is_some_and(|line| line.starts_with("//! "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        let mut findings = Vec::new();
        check(&File::new(path, text), &mut findings);
        findings.len()
    }

    #[test]
    fn rejects_files_over_the_line_limit() {
        assert_eq!(findings("tests/a.rs", &"\n".repeat(LINES_MAX)), 0);
        assert_eq!(findings("tests/a.rs", &"\n".repeat(LINES_MAX + 1)), 1);
    }

    #[test]
    fn source_files_need_a_module_comment() {
        assert_eq!(findings("crates/core/src/a.rs", "//! A noun.\n"), 0);
        assert_eq!(findings("crates/core/src/a.rs", "use core::fmt;\n"), 1);
        assert_eq!(findings("crates/core/src/a.rs", "//!\n"), 1);
        assert_eq!(findings("crates/core/src/a.rs", ""), 1);
        // Examples do not need one.
        assert_eq!(findings("crates/core/examples/a.rs", "use core::fmt;\n"), 0);
    }

    #[test]
    fn attributes_come_first_only_in_a_crate_root() {
        let text = "#![no_std]\n\n//! A crate.\n";
        assert_eq!(findings("crates/core/src/lib.rs", text), 0);
        assert_eq!(findings("crates/core/src/a.rs", text), 1);
        assert_eq!(findings("crates/core/src/lib.rs", "#![no_std]\nmod a;\n"), 1);
    }

    #[test]
    fn finds_every_unfinished_mark() {
        for (mark, _) in UNFINISHED {
            assert_eq!(findings("tests/a.rs", &format!("fn a() {{}} // {mark}\n")), 1, "{mark}");
        }
    }
}
