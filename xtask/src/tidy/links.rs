//! Rule for documents: every relative link leads to a file of this repository.

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
        None => Some(format!("link `{target}` leads out of the repository")),
        Some(path) if !exists(&path) => Some(format!("link `{target}` leads nowhere")),
        Some(_) => None,
    }
}

/// What a line links to: `[text](target)`, `[text](target "title")` and `[name]: target`.
fn targets(line: &str) -> Vec<&str> {
    let mut targets = Vec::new();
    if let Some((name, target)) = line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")) {
        // A name with `^` is a footnote, and what follows is prose.
        targets.extend((!name.starts_with('^')).then(|| target.trim()));
    }
    for (index, outside) in line.split('`').enumerate() {
        // Every second part stands between backticks. Of a link around code, the `](` does not.
        if index % 2 == 0 {
            targets.extend(outside.split("](").skip(1).filter_map(inline_target));
        }
    }
    targets
}

/// The target at the start of what follows `](`.
fn inline_target(rest: &str) -> Option<&str> {
    let (target, _) = rest.split_once(')')?;
    let target = target.split_whitespace().next()?;
    Some(target.trim_start_matches('<').trim_end_matches('>'))
}

fn is_address(target: &str) -> bool {
    ["http://", "https://", "mailto:"].iter().any(|scheme| target.starts_with(scheme))
}

/// The path from the root of what `target` names from `folder`, or nothing if it climbs out.
fn resolve(folder: &str, target: &str) -> Option<String> {
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
    fn links_that_lead_somewhere_pass() {
        let text = "[a](here.md) [b](../README.md#top) ![c](./here.md \"title\") [d](#below)\n\
            [e](https://example.com/gone.md) [`f`](../crates/core/)\n[g]: here.md\n";
        assert_eq!(findings(text), [""; 0]);
    }

    #[test]
    fn links_that_lead_nowhere_are_found() {
        assert_eq!(findings("[a](gone.md)\n"), ["link `gone.md` leads nowhere"]);
        assert_eq!(findings("[a](here.md) and [b](README.md)\n").len(), 1);
        assert_eq!(findings("[`code`](gone.md)\n").len(), 1);
        assert_eq!(findings("[a]: gone.md\n").len(), 1);
        assert_eq!(findings("![picture](gone.svg)\n").len(), 1);
    }

    #[test]
    fn a_link_out_of_the_repository_is_found_even_if_the_file_is_there() {
        let what = ["link `../../README.md` leads out of the repository"];
        assert_eq!(findings("[a](../../README.md)\n"), what);
        assert_eq!(findings("[a](/README.md)\n").len(), 1);
    }

    #[test]
    fn code_is_not_a_link() {
        assert_eq!(findings("```\n[a](gone.md)\n```\n"), [""; 0]);
        assert_eq!(findings("write `[a](gone.md)` so\n"), [""; 0]);
        assert_eq!(findings("[^1]: a footnote\n"), [""; 0]);
        assert_eq!(findings("```\ncode\n```\n[a](gone.md)\n").len(), 1);
    }
}
