//! Rule for code blocks of the guide: a test runs each of them, or the page says why none does.
//!
//! | block | tested by |
//! |---|---|
//! | `rust` | doc tests: a crate includes the page with `#[doc = include_str!(..)]` |
//! | `run`, `serve`, `check` or `file=` after the language | `crates/server/tests/daemon/guide.rs` |
//! | any other language, below `<!-- tested by PATH -->` | that file, which names the page |
//! | any other language, below `<!-- not run: REASON -->` | nothing |
//! | `text` | nothing: it is output or a formula |
//!
//! A comment applies to the blocks below it, up to the next comment.

use std::fs;
use std::path::Path;

use super::{pages_below, read};

/// Words after the language of a block that the tests of the daemon run.
const RUN: [&str; 4] = ["run", "serve", "check", "file="];

/// How the blocks below a comment are tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Marker<'a> {
    None,
    TestedBy(&'a str),
    NotRun,
}

/// Returns all blocks of `docs/` that no test covers.
pub(super) fn check(root: &Path) -> Result<Vec<String>, String> {
    let doctested = doctested(root)?;
    let mut findings = Vec::new();
    let pages = pages_below(root, "docs")?.into_iter().chain(["README.md".to_owned()]);
    for page in pages {
        let text = read(root, &page)?;
        let names_page = |test: &str| {
            let name = page.trim_start_matches("docs/");
            fs::read_to_string(root.join(test)).is_ok_and(|text| text.contains(name))
        };
        for (line, what) in check_page(&text, doctested.contains(&page), &names_page) {
            findings.push(format!("{page}:{line}: {what}"));
        }
    }
    Ok(findings)
}

fn check_page(
    text: &str,
    is_doctested: bool,
    names_page: &dyn Fn(&str) -> bool,
) -> Vec<(usize, String)> {
    let mut findings = Vec::new();
    let mut marker = Marker::None;
    let mut in_code = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(words) = line.strip_prefix("```") {
            in_code = !in_code;
            if in_code && let Some(what) = check_block(words, marker, is_doctested, names_page) {
                findings.push((index + 1, what));
            }
        } else if !in_code && let Some(found) = comment(line) {
            marker = found;
        }
    }
    findings
}

fn comment(line: &str) -> Option<Marker<'_>> {
    let inner = line.strip_prefix("<!--")?.strip_suffix("-->")?.trim();
    match inner.strip_prefix("tested by ") {
        Some(path) => Some(Marker::TestedBy(path)),
        None => inner.strip_prefix("not run: ").map(|_| Marker::NotRun),
    }
}

fn check_block(
    words: &str,
    marker: Marker<'_>,
    is_doctested: bool,
    names_page: &dyn Fn(&str) -> bool,
) -> Option<String> {
    let mut parts = words.split([' ', ',']);
    let language = parts.next().unwrap_or_default();
    let is_run = parts.any(|word| RUN.iter().any(|run| word.starts_with(run)));
    match language {
        "" => Some("a code block without a language: use `text` for output".to_owned()),
        "text" => None,
        "rust" if is_doctested => None,
        "rust" => Some("no crate includes this page, so its Rust code is not tested".to_owned()),
        _ if is_run => None,
        language => match marker {
            Marker::TestedBy(test) if names_page(test) => None,
            Marker::TestedBy(test) => {
                Some(format!("`{test}` does not exist or does not name this page"))
            }
            Marker::NotRun => None,
            Marker::None => Some(format!(
                "no test runs this block of `{language}`: add `run`, or a comment as in xtask/src/book/fences.rs"
            )),
        },
    }
}

/// Returns the pages that crates include as documentation, so that their code is run.
fn doctested(root: &Path) -> Result<Vec<String>, String> {
    let crates = root.join("crates");
    let entries = fs::read_dir(&crates).map_err(|error| format!("cannot read crates: {error}"))?;
    let mut pages = Vec::new();
    for entry in entries.flatten() {
        let text = fs::read_to_string(entry.path().join("src/lib.rs")).unwrap_or_default();
        let included = text.split("include_str!(\"../../../").skip(1);
        pages.extend(included.filter_map(|rest| Some(rest.split_once('"')?.0.to_owned())));
    }
    Ok(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<usize> {
        let names_page = |test: &str| test == "tests/page.rs";
        check_page(text, false, &names_page).into_iter().map(|(line, _)| line).collect()
    }

    #[test]
    fn every_block_is_run_tested_or_marked() {
        let fence = "```";
        assert_eq!(lines(&format!("{fence}sh\nls\n{fence}\n")), [1]);
        assert_eq!(lines(&format!("{fence}sh run\nls\n{fence}\n")), [0; 0]);
        assert_eq!(lines(&format!("{fence}yaml file=a.yaml\na: 1\n{fence}\n")), [0; 0]);
        assert_eq!(lines(&format!("{fence}text\n1 + 1\n{fence}\n")), [0; 0]);
        assert_eq!(lines(&format!("{fence}\n1 + 1\n{fence}\n")), [1]);
        let marked =
            |comment: &str| lines(&format!("<!-- {comment} -->\n{fence}sh\nls\n{fence}\n"));
        assert_eq!(marked("tested by tests/page.rs"), [0; 0]);
        assert_eq!(marked("tested by tests/other.rs"), [2]);
        assert_eq!(marked("not run: needs a cluster"), [0; 0]);
        assert_eq!(marked("some comment"), [2]);
    }

    #[test]
    fn rust_is_tested_only_in_included_pages() {
        let page = "```rust\nlet a = 1;\n```\n";
        assert_eq!(lines(page), [1]);
        assert_eq!(check_page(page, true, &|_| false), []);
        let included = doctested(&crate::root()).unwrap();
        assert!(included.contains(&"docs/tower.md".to_owned()), "{included:?}");
    }

    #[test]
    fn a_comment_applies_until_the_next_one() {
        let text = "<!-- not run: slow -->\n```sh\na\n```\n```sh\nb\n```\n<!-- tested by x -->\n```sh\nc\n```\n";
        assert_eq!(lines(text), [9]);
    }
}
