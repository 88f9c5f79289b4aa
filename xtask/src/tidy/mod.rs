//! `cargo xtask tidy`: house rules that the compiler does not check, and spelling.

mod links;
mod phrases;
mod source;
mod spelling;
mod tables;
mod text;
mod traces;
mod tree;

use std::fmt;
use std::path::Path;

use crate::Outcome;
pub(crate) use links::{resolve, targets};
use tree::File;

/// A violation of a rule, with its place.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    path: String,
    /// Counted from one. Zero means the whole file.
    line: usize,
    what: String,
}

impl Finding {
    fn new(file: &File, line: usize, what: impl Into<String>) -> Self {
        Self { path: file.path.clone(), line, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {}", self.path, self.what),
            line => write!(f, "{}:{line}: {}", self.path, self.what),
        }
    }
}

/// Checks every text file of the repository and prints all findings.
pub(crate) fn run(root: &Path) -> Outcome {
    let files = tree::read(root)?;
    let findings = check(&files, &|path| root.join(path).exists());
    for finding in &findings {
        eprintln!("    {finding}");
    }
    match findings.len() {
        0 => {
            eprintln!("    {} files are tidy", files.len());
            spelling::check(root)
        }
        count => Err(format!("{count} findings in {} files, listed above", files.len())),
    }
}

fn check(files: &[File], exists: &dyn Fn(&str) -> bool) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        text::check(file, &mut findings);
        phrases::check(file, &mut findings);
        match file.extension() {
            "rs" => source::check(file, &mut findings),
            "md" => {
                links::check(file, exists, &mut findings);
                tables::check(file, &mut findings);
            }
            _ => {}
        }
    }
    traces::check(files, &mut findings);
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_called() {
        // One bad file per rule.
        let files = [
            File::new("docs/blank.md", "trailing \n"),
            File::new("crates/core/src/bare.rs", "fn main() {}\n"),
            File::new("docs/dead.md", "[gone](gone.md)\n"),
            File::new("docs/table.md", "|-|-|-|-|-|-|\n"),
            File::new("conformance/bad.json", "[]\n"),
            File::new("phrase.md", concat!("so ", "many\n")),
        ];
        let findings = check(&files, &|_| false);
        for file in &files {
            let found = findings.iter().any(|finding| finding.path == file.path);
            assert!(found, "nothing found in {}", file.path);
        }
    }

    #[test]
    fn a_finding_shows_its_place() {
        let file = File::new("a.md", "");
        assert_eq!(Finding::new(&file, 3, "bad").to_string(), "a.md:3: bad");
        assert_eq!(Finding::new(&file, 0, "bad").to_string(), "a.md: bad");
    }
}
