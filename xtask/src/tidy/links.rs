//! Rule for documents: the target of every relative link exists in this repository.

use super::Finding;
use super::tree::File;

pub(super) fn check(file: &File, exists: &dyn Fn(&str) -> bool, findings: &mut Vec<Finding>) {
    let mut in_code = false;
    for (index, line) in file.text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        } else if !in_code {
            for target in targets(line) {
                if let Some(what) = check_target(file, target, exists) {
                    findings.push(Finding::new(file, index + 1, what));
                }
            }
        }
    }
}

fn check_target(file: &File, target: &str, exists: &dyn Fn(&str) -> bool) -> Option<String> {
    let path = target.split_once('#').map_or(target, |(path, _)| path);
    if path.is_empty() || is_address(path) {
        return None;
    }
    match resolve(file.folder(), path) {
        None => Some(format!("link `{target}` is outside the repository")),
        Some(path) if !exists(&path) => Some(format!("link `{target}` has no target file")),
        Some(_) => None,
    }
}

/// Returns the link targets in a line: `[text](target)`, `[text](target "title")` and `[name]: target`.
pub(crate) fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    if let Some((name, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        // A name with `^` is a footnote, followed by prose.
        targets.extend((!name.starts_with('^')).then(|| target.trim()));
    }
    for (index, outside) in line.split('`').enumerate() {
        // Every second part is between backticks. In a link around code, the `](` is outside them.
        if index % 2 == 0 {
            targets.extend(outside.split("](").skip(1).filter_map(inline_target));
        }
    }
    targets
}

/// Returns the target in the text after `](`.
fn inline_target(rest: &str) -> Option<&str> {
    let (target, _) = rest.split_once(')')?;
    let target = target.split_whitespace().next()?;
    Some(target.trim_start_matches('<').trim_end_matches('>'))
}

fn is_address(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// Resolves `target` relative to `folder`. Returns `None` if the path leaves the repository.
pub(crate) fn resolve(folder: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = Vec::new();
    if target.starts_with('/') {
        return None;
    }
    for part in folder.split('/').chain(target.split('/')) {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        let exists = |path: &str| ["docs/here.md", "README.md", "crates/core"].contains(&path);
        check(&File::new("docs/a.md", text), &exists, &mut findings);
        findings.into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn existing_targets_pass() {
        let text = "[a](here.md) [b](../README.md#top) ![c](./here.md \"title\") [d](#below)\n\
            [e](https://example.com/gone.md) [`f`](../crates/core/)\n[g]: here.md\n";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn finds_missing_targets() {
        assert_eq!(findings("[a](gone.md)\n"), ["link `gone.md` has no target file"]);
        assert_eq!(findings("[a](here.md) and [b](README.md)\n").len(), 1);
        assert_eq!(findings("[`code`](gone.md)\n").len(), 1);
        assert_eq!(findings("[a]: gone.md\n").len(), 1);
        assert_eq!(findings("![picture](gone.svg)\n").len(), 1);
    }

    #[test]
    fn finds_links_outside_the_repository() {
        let what = ["link `../../README.md` is outside the repository"];
        assert_eq!(findings("[a](../../README.md)\n"), what);
        assert_eq!(findings("[a](/README.md)\n").len(), 1);
    }

    #[test]
    fn ignores_code() {
        assert_eq!(findings("```\n[a](gone.md)\n```\n"), [""; 0]);
        assert_eq!(findings("write `[a](gone.md)` so\n"), [""; 0]);
        assert_eq!(findings("[^1]: a footnote\n"), [""; 0]);
        assert_eq!(findings("```\ncode\n```\n[a](gone.md)\n").len(), 1);
    }
}
