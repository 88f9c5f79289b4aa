//! Rules for every text file: no tab, no trailing blank, no path of somebody's machine.

use super::Finding;
use super::tree::File;

// Written in two halves so that this file passes its own check.
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
        return Some("ends with a blank".to_owned());
    }
    let folder = MACHINE_FOLDERS.iter().find(|folder| names_from_the_top(line, folder))?;
    Some(format!("names {folder}, a folder of one machine: use a relative path"))
}

/// Whether `folder` is named from the top of the file system, not inside a longer path or address.
fn names_from_the_top(line: &str, folder: &str) -> bool {
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
    fn a_plain_text_passes() {
        assert_eq!(findings("One line.\n\n    Another.\n"), 0);
    }

    #[test]
    fn tabs_and_trailing_blanks_are_found() {
        assert_eq!(findings("a\tb\n"), 1);
        assert_eq!(findings("a \n"), 1);
        assert_eq!(findings("a\n  \nb\n"), 1);
    }

    #[test]
    fn a_file_ends_with_one_line_break() {
        assert_eq!(findings("a"), 1);
        assert_eq!(findings("a\n\n"), 1);
        assert_eq!(findings("a\n"), 0);
    }

    #[test]
    fn machine_paths_are_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(findings(&format!("see {folder}main\n")), 1, "{folder}");
            assert_eq!(findings(&format!("\"{folder}main\"\n")), 1, "{folder}");
        }
    }

    #[test]
    fn the_same_words_inside_a_path_or_address_are_not() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(findings(&format!("docs{folder}main\n")), 0, "{folder}");
            assert_eq!(findings(&format!("https://example.com{folder}\n")), 0, "{folder}");
        }
    }
}
