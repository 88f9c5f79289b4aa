//! `cargo xtask book`: builds the guide with mdBook and checks it.
//!
//! Pages in `docs/` link to files outside of it, such as `ARCHITECTURE.md` and examples. So the book is
//! built from a copy that has the layout of the repository and contains every file that is linked.

mod fences;
mod pages;

use std::collections::{BTreeSet, VecDeque};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use crate::tidy::{resolve, targets};
use crate::{Outcome, command, install};

/// The list of chapters, relative to the root.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Builds the guide into `target/book/html`, and checks its code blocks, links and anchors.
pub(crate) fn run(root: &Path) -> Outcome {
    let mdbook = install::mdbook(root)?;
    let folder = command::target(root).join("book");
    let staged = stage(root, &folder)?;
    command::run(Command::new(mdbook).arg("build").arg(&folder))?;
    let mut findings = unlisted(root, &staged)?;
    findings.extend(fences::check(root)?);
    let html = folder.join("html");
    let pages = pages::read(&html)?;
    findings.extend(pages::check(&html, &pages));
    for finding in &findings {
        eprintln!("    {finding}");
    }
    match findings.len() {
        0 => {
            let links: usize = pages.values().map(|page| page.links.len()).sum();
            let index = html.join("index.html");
            eprintln!("    {} pages, {links} links: {}", pages.len(), index.display());
            Ok(())
        }
        count => Err(format!("{count} findings in the guide, listed above")),
    }
}

/// Copies the chapters and all files that they link to. Returns their paths.
fn stage(root: &Path, folder: &Path) -> Result<BTreeSet<String>, String> {
    let failed = |error| format!("cannot prepare {}: {error}", folder.display());
    if folder.exists() {
        fs::remove_dir_all(folder).map_err(failed)?;
    }
    let source = folder.join("src");
    fs::create_dir_all(&source).map_err(failed)?;
    let copy = |from: &str, to: &Path| {
        fs::create_dir_all(to.parent().unwrap_or(to))
            .and_then(|()| fs::copy(root.join(from), to))
            .map_err(|error| format!("cannot copy {from}: {error}"))
    };
    copy("docs/book.toml", &folder.join("book.toml"))?;
    let summary = read(root, SUMMARY)?;
    fs::write(source.join("SUMMARY.md"), from_root(&summary)?).map_err(failed)?;
    let mut staged = BTreeSet::new();
    let mut waiting = VecDeque::from(linked(root, SUMMARY, &summary));
    while let Some(path) = waiting.pop_front() {
        if !staged.insert(path.clone()) {
            continue;
        }
        copy(&path, &source.join(&path))?;
        if is_page(&path) {
            waiting.extend(linked(root, &path, &read(root, &path)?));
        }
    }
    Ok(staged)
}

/// Returns the files that a page links to. Missing ones are found later, in the book.
fn linked(root: &Path, page: &str, text: &str) -> Vec<String> {
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let relative = prose(text).flat_map(targets).filter(|target| !target.contains("://"));
    let paths = relative.map(|target| target.split('#').next().unwrap_or_default());
    let files = paths.filter(|path| !path.is_empty()).filter_map(|path| resolve(folder, path));
    files.filter(|path| root.join(path).is_file()).collect()
}

/// Returns the lines outside of code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut in_code = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        in_code ^= is_fence;
        !in_code && !is_fence
    })
}

/// Rewrites the links of the summary, which are relative to `docs/`, relative to the root.
fn from_root(summary: &str) -> Result<String, String> {
    let mut text = String::with_capacity(summary.len() + 1024);
    for line in summary.lines() {
        match line.split_once("](").and_then(|(title, rest)| Some((title, rest.strip_suffix(')')?)))
        {
            Some((title, target)) => {
                let path = resolve("docs", target)
                    .ok_or_else(|| format!("{SUMMARY}: `{target}` is outside the repository"))?;
                let _ = writeln!(text, "{title}]({path})");
            }
            None => {
                let _ = writeln!(text, "{line}");
            }
        }
    }
    Ok(text)
}

/// Finds pages that no reader of the book could reach: mdBook omits pages that are not in the summary.
fn unlisted(root: &Path, staged: &BTreeSet<String>) -> Result<Vec<String>, String> {
    let summary = read(root, SUMMARY)?;
    let listed: BTreeSet<String> = linked(root, SUMMARY, &summary).into_iter().collect();
    let mut pages: BTreeSet<String> = pages_below(root, "docs")?.into_iter().collect();
    pages.extend(staged.iter().filter(|path| is_page(path)).cloned());
    pages.remove(SUMMARY);
    let missing = pages.difference(&listed);
    Ok(missing.map(|path| format!("{path} is not in {SUMMARY}")).collect())
}

/// Returns the pages in a directory and below it, relative to the root.
fn pages_below(root: &Path, folder: &str) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot read {folder}: {error}");
    let mut pages = Vec::new();
    for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let path = format!("{folder}/{}", entry.file_name().to_string_lossy());
        if entry.file_type().map_err(failed)?.is_dir() {
            pages.extend(pages_below(root, &path)?);
        } else if is_page(&path) {
            pages.push(path);
        }
    }
    pages.sort();
    Ok(pages)
}

fn is_page(path: &str) -> bool {
    path.rsplit_once('.').is_some_and(|(_, extension)| extension == "md")
}

fn read(root: &Path, path: &str) -> Result<String, String> {
    fs::read_to_string(root.join(path)).map_err(|error| format!("cannot read {path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_rewritten_from_the_root() {
        let summary = "# Summary\n\n[Introduction](../README.md)\n\n- [Redis](redis.md)\n";
        let expected = "# Summary\n\n[Introduction](README.md)\n\n- [Redis](docs/redis.md)\n";
        assert_eq!(from_root(summary), Ok(expected.to_owned()));
        assert!(from_root("[out](../../x.md)\n").is_err());
    }

    #[test]
    fn links_in_code_are_not_followed() {
        let root = crate::root();
        let text =
            "[a](../README.md#top)\n```text\n[b](../SECURITY.md)\n```\n[c](https://x.y/z.md)\n";
        assert_eq!(linked(&root, "docs/page.md", text), ["README.md"]);
    }

    #[test]
    fn every_page_of_the_guide_is_in_the_summary() {
        let root = crate::root();
        assert_eq!(unlisted(&root, &BTreeSet::new()).unwrap(), [""; 0]);
    }
}
