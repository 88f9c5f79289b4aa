//! Rules for every text file: no tab, no trailing whitespace, no path of one machine.

use super::Finding;
use super::tree::File;

// Each path is split, so that this file passes its own check.
const MACHINE_FOLDERS: &[&str] =
    &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/wo", "rk/")];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    for (index, line) in file.text.lines().enumerate() {
        if let Some(what) = check_line(line) {
            findings.push(Finding::new(file, index + 1, what));
        }
    }
    if !file.text.ends_with('\n') || file.text.ends_with("\n\n") {
        findings.push(Finding::new(file, 0, "does not end with exactly one line break"));
    }
}

fn check_line(line: &str) -> Option<String> {
    if line.contains('\t') {
        return Some("has a tab: use spaces".to_owned());
    }
    if line.ends_with(char::is_whitespace) {
        return Some("ends with whitespace".to_owned());
    }
    let folder = MACHINE_FOLDERS.iter().find(|folder| has_absolute(line, folder))?;
    Some(format!("names {folder}, a directory of one machine: use a relative path"))
}

/// Returns `true` if the line contains `folder` as an absolute path, not inside a longer path or URL.
fn has_absolute(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|before| before.is_alphanumeric() || "._-/~}*".contains(before))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        let mut findings = Vec::new();
        check(&File::new("a.md", text), &mut findings);
        findings.len()
    }

    #[test]
    fn plain_text_passes() {
        assert_eq!(findings("One line.\n\n    Another.\n"), 0);
    }

    #[test]
    fn finds_tabs_and_trailing_whitespace() {
        assert_eq!(findings("a\tb\n"), 1);
        assert_eq!(findings("a \n"), 1);
        assert_eq!(findings("a\n  \nb\n"), 1);
    }

    #[test]
    fn requires_one_line_break_at_the_end() {
        assert_eq!(findings("a"), 1);
        assert_eq!(findings("a\n\n"), 1);
        assert_eq!(findings("a\n"), 0);
    }

    #[test]
    fn finds_machine_paths() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(findings(&format!("see {folder}main\n")), 1, "{folder}");
            assert_eq!(findings(&format!("\"{folder}main\"\n")), 1, "{folder}");
        }
    }

    #[test]
    fn allows_the_same_names_inside_a_path_or_url() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(findings(&format!("docs{folder}main\n")), 0, "{folder}");
            assert_eq!(findings(&format!("https://example.com{folder}\n")), 0, "{folder}");
        }
    }
}
