//! Rule for tables in documents: at most five columns, so that a row fits on a screen.

use super::Finding;
use super::tree::File;

const COLUMNS_MAX: usize = 5;

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    let mut is_code = false;
    for (index, line) in file.text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with("```") {
            is_code = !is_code;
        }
        let columns = if is_code { 0 } else { columns(line) };
        if columns > COLUMNS_MAX {
            let what = format!(
                "a table of {columns} columns, at most {COLUMNS_MAX} are allowed: split or transpose it"
            );
            findings.push(Finding::new(file, index + 1, what));
        }
    }
}

/// Returns the number of columns if the line is the delimiter row of a table, such as `|---|--:|`.
///
/// Every table has exactly one such row. Unlike other rows, it cannot contain an escaped `|`.
fn columns(line: &str) -> usize {
    let is_delimiter = line.contains('-') && line.chars().all(|char| "|-: ".contains(char));
    if !is_delimiter || !line.contains('|') {
        return 0;
    }
    line.trim_matches('|').split('|').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<usize> {
        let mut findings = Vec::new();
        check(&File::new("a.md", text), &mut findings);
        findings.into_iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn accepts_five_columns_and_rejects_six() {
        assert_eq!(findings("| a | b | c | d | e |\n|---|---:|:---|---|---|\n"), [0; 0]);
        assert_eq!(findings("| a | b | c | d | e | f |\n|---|---:|:---|---|---|---|\n"), [2]);
    }

    #[test]
    fn counts_columns_without_outer_pipes() {
        assert_eq!(columns("--- | :--- | ---:"), 3);
    }

    #[test]
    fn ignores_rules_lists_and_code() {
        assert_eq!(findings("---\n\n- a | b | c | d | e | f\n"), [0; 0]);
        assert_eq!(findings("```text\n|---|---|---|---|---|---|\n```\n"), [0; 0]);
        assert_eq!(findings("```text\n```\n|---|---|---|---|---|---|\n"), [3]);
    }
}
