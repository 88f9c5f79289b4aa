//! Rules for Rust files: short, introduced, finished.

use super::Finding;
use super::tree::File;

/// The most lines of one file. Above it, the file holds two nouns.
const LINES_MAX: usize = 600;

// Written in two halves so that this file passes its own check.
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
        let what = format!("has {lines} lines, more than {LINES_MAX}: split it by noun");
        findings.push(Finding::new(file, 0, what));
    }
    if is_source(&file.path) && !is_introduced(file) {
        findings.push(Finding::new(file, 1, "does not open with `//!` and what it is"));
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

/// A crate's root may set attributes for the whole crate first.
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
    fn six_hundred_lines_are_the_most() {
        assert_eq!(findings("tests/a.rs", &"\n".repeat(LINES_MAX)), 0);
        assert_eq!(findings("tests/a.rs", &"\n".repeat(LINES_MAX + 1)), 1);
    }

    #[test]
    fn a_source_file_says_what_it_is() {
        assert_eq!(findings("crates/core/src/a.rs", "//! A noun.\n"), 0);
        assert_eq!(findings("crates/core/src/a.rs", "use core::fmt;\n"), 1);
        assert_eq!(findings("crates/core/src/a.rs", "//!\n"), 1);
        assert_eq!(findings("crates/core/src/a.rs", ""), 1);
        // Only what is built into a crate; an example may start as it likes.
        assert_eq!(findings("crates/core/examples/a.rs", "use core::fmt;\n"), 0);
    }

    #[test]
    fn only_a_crate_root_may_set_attributes_first() {
        let text = "#![no_std]\n\n//! A crate.\n";
        assert_eq!(findings("crates/core/src/lib.rs", text), 0);
        assert_eq!(findings("crates/core/src/a.rs", text), 1);
        assert_eq!(findings("crates/core/src/lib.rs", "#![no_std]\nmod a;\n"), 1);
    }

    #[test]
    fn every_unfinished_mark_is_found() {
        for (mark, _) in UNFINISHED {
            assert_eq!(findings("tests/a.rs", &format!("fn a() {{}} // {mark}\n")), 1, "{mark}");
        }
    }
}
