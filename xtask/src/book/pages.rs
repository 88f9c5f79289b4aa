//! Checks the links of the generated pages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::tidy::resolve;

/// What a page links to, and what can be linked in it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Page {
    pub(super) links: Vec<String>,
    pub(super) anchors: BTreeSet<String>,
}

/// Reads every page below `html`. The names are relative to it.
pub(super) fn read(html: &Path) -> Result<BTreeMap<String, Page>, String> {
    let mut pages = BTreeMap::new();
    read_folder(html, "", &mut pages)?;
    Ok(pages)
}

fn read_folder(
    html: &Path,
    folder: &str,
    pages: &mut BTreeMap<String, Page>,
) -> Result<(), String> {
    let failed = |error| format!("cannot read `{folder}` of the book: {error}");
    for entry in fs::read_dir(html.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
        if entry.file_type().map_err(failed)?.is_dir() {
            read_folder(html, &path, pages)?;
        } else if path.rsplit_once('.').is_some_and(|(_, extension)| extension == "html") {
            let text = fs::read_to_string(html.join(&path)).map_err(failed)?;
            pages.insert(path, parse(&text));
        }
    }
    Ok(())
}

fn parse(html: &str) -> Page {
    let links = attributes(html, "href").chain(attributes(html, "src")).collect();
    Page { links, anchors: attributes(html, "id").collect() }
}

/// Returns the values of an attribute. Code on a page cannot contain one, because its quotes are escaped.
fn attributes<'a>(html: &'a str, name: &str) -> impl Iterator<Item = String> + use<'a> {
    let start = format!(" {name}=\"");
    let values: Vec<&str> = html.split(&start).skip(1).collect();
    values.into_iter().filter_map(|rest| Some(rest.split_once('"')?.0.replace("&amp;", "&")))
}

/// Returns every link whose target does not exist, with its page.
pub(super) fn check(html: &Path, pages: &BTreeMap<String, Page>) -> Vec<String> {
    let is_file = |path: &str| html.join(path).is_file();
    let mut findings = Vec::new();
    for (name, page) in pages {
        for link in &page.links {
            if let Err(reason) = check_link(name, link, pages, &is_file) {
                findings.push(format!("{name}: link `{link}` {reason}"));
            }
        }
    }
    findings
}

fn check_link(
    page: &str,
    link: &str,
    pages: &BTreeMap<String, Page>,
    is_file: &dyn Fn(&str) -> bool,
) -> Result<(), &'static str> {
    if link.contains("://") || link.starts_with("mailto:") {
        return check_address(link);
    }
    let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
    let folder = page.rsplit_once('/').map_or("", |(folder, _)| folder);
    let target = match path {
        "" => page.to_owned(),
        path => resolve(folder, path).ok_or("is outside the book")?,
    };
    if !is_file(&target) {
        return Err("has no target: link to a page in docs/SUMMARY.md or to a file");
    }
    match pages.get(&target) {
        Some(page) if !anchor.is_empty() && !page.anchors.contains(anchor) => {
            Err("names a heading that does not exist")
        }
        _ => Ok(()),
    }
}

/// Checks the syntax of an address. Tests have no network.
fn check_address(link: &str) -> Result<(), &'static str> {
    let host =
        ["https://", "http://", "mailto:"].iter().find_map(|scheme| link.strip_prefix(scheme));
    let is_valid = |host: &str| {
        host.starts_with(|first: char| first.is_ascii_alphanumeric())
            && !link.contains([' ', '<', '>', '`'])
    };
    if host.is_some_and(is_valid) { Ok(()) } else { Err("is not an address") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = r#"<h1 id="top">A</h1><a href="b.html#part">b</a><img src="b.svg">
        <code>&lt;a href=&quot;gone.html&quot;&gt;</code>"#;

    fn findings(link: &str) -> Vec<String> {
        let a = format!(r#"{A}<a href="{link}">x</a>"#);
        let pages = BTreeMap::from([
            ("docs/a.html".to_owned(), parse(&a)),
            ("docs/b.html".to_owned(), parse(r#"<h2 id="part">B</h2>"#)),
        ]);
        let is_file = |path: &str| pages.contains_key(path) || path == "docs/b.svg";
        let page = &pages["docs/a.html"];
        let wrong = page.links.iter().filter_map(|link| {
            check_link("docs/a.html", link, &pages, &is_file).err().map(str::to_owned)
        });
        wrong.collect()
    }

    #[test]
    fn existing_targets_pass() {
        for link in ["b.html", "#top", "../docs/b.html#part", "https://example.com/x#y"] {
            assert_eq!(findings(link), [""; 0], "{link}");
        }
    }

    #[test]
    fn finds_missing_pages_headings_and_addresses() {
        for link in ["gone.html", "b.html#gone", "#gone", "../../x.html", "https:///x", "ftp://x"] {
            assert_eq!(findings(link).len(), 1, "{link}");
        }
    }

    #[test]
    fn reads_links_and_anchors_but_not_code() {
        let page = parse(A);
        assert_eq!(page.links, ["b.html#part", "b.svg"]);
        assert_eq!(page.anchors, BTreeSet::from(["top".to_owned()]));
    }
}
