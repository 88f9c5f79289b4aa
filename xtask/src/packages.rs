//! The packages below `crates`, and a separate check of each published one.

use std::fs;
use std::path::{Path, PathBuf};

use crate::Outcome;
use crate::command::{self, cargo};

/// A package of the workspace.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) is_published: bool,
    /// The directory of its examples, which need not exist.
    pub(crate) examples: PathBuf,
}

/// Runs clippy on each published package as users build it: alone, with its default features.
///
/// The other steps combine the features of all packages, which hides a feature that a package uses
/// without enabling it.
pub(crate) fn check(root: &Path) -> Outcome {
    for package in list(root)?.iter().filter(|package| package.is_published) {
        let mut clippy = cargo(root, &["clippy", "--no-deps", "--package", &package.name]);
        command::run(clippy.args(["--", "-D", "warnings"]))?;
    }
    Ok(())
}

/// Returns all packages below `crates`, sorted by directory name.
pub(crate) fn list(root: &Path) -> Result<Vec<Package>, String> {
    let folder = root.join("crates");
    let failed = |error| format!("cannot list {}: {error}", folder.display());
    let mut packages = Vec::new();
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let folder = entry.map_err(failed)?.path();
        let manifest = folder.join("Cargo.toml");
        let text = fs::read_to_string(&manifest)
            .map_err(|error| format!("cannot read {}: {error}", manifest.display()))?;
        packages.push(parse(&text, &folder)?);
    }
    packages.sort_unstable_by(|one, other| one.examples.cmp(&other.examples));
    Ok(packages)
}

/// Reads the name of a package and whether it is published.
fn parse(manifest: &str, folder: &Path) -> Result<Package, String> {
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
    let name = name.ok_or_else(|| format!("{} has no name", folder.display()))?;
    Ok(Package {
        name: name.to_owned(),
        is_published: !manifest.lines().any(|line| line == "publish = false"),
        examples: folder.join("examples"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinguishes_published_packages() {
        let folder = Path::new("crates/a");
        let published = parse("[package]\nname = \"a\"\n", folder).unwrap();
        assert_eq!((published.name.as_str(), published.is_published), ("a", true));
        let other = parse("[package]\nname = \"a\"\npublish = false\n", folder).unwrap();
        assert!(!other.is_published);
        assert!(parse("[workspace]\n", folder).is_err());
    }

    #[test]
    fn finds_the_packages_of_this_workspace() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let packages = list(&root).unwrap();
        let is_published = |name: &str| {
            packages.iter().find(|package| package.name == name).map(|package| package.is_published)
        };
        assert_eq!(is_published("slidegate"), Some(true));
        assert_eq!(is_published("slidegate-testkit"), Some(false));
    }
}
