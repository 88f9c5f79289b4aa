//! The text files of the repository.

use std::fs;
use std::path::Path;

/// A file of ours: its path from the root, with `/`, and what it says.
#[derive(Debug)]
pub(super) struct File {
    pub(super) path: String,
    pub(super) text: String,
}

impl File {
    #[cfg(test)]
    pub(super) fn new(path: &str, text: &str) -> Self {
        Self { path: path.to_owned(), text: text.to_owned() }
    }

    /// What follows the last dot of the name; empty without one.
    pub(super) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// The folder the file is in, without a slash at the end; empty at the root.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// Folders with nothing that somebody wrote.
const SKIPPED: &[&str] = &[".git", "artifacts", "corpus", "node_modules", "target"];

/// What is read: text that people write. Lock files and pictures are not.
const EXTENSIONS: &[&str] = &["json", "lua", "md", "rs", "sh", "toml", "yaml", "yml"];

/// A tree deeper than this is a loop of links.
const DEPTH_MAX: usize = 16;

/// Every text file under `root`, in the order of their paths.
pub(super) fn read(root: &Path) -> Result<Vec<File>, String> {
    let mut files = Vec::new();
    read_folder(root, "", 0, &mut files)?;
    files.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(files)
}

fn read_folder(
    root: &Path,
    folder: &str,
    depth: usize,
    files: &mut Vec<File>,
) -> Result<(), String> {
    let failed = |error| format!("cannot read `{folder}`: {error}");
    if depth > DEPTH_MAX {
        return Err(format!("`{folder}` is deeper than {DEPTH_MAX} folders"));
    }
    for entry in fs::read_dir(root.join(folder)).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && !SKIPPED.contains(&name.as_str()) {
            read_folder(root, &path, depth + 1, files)?;
        } else if kind.is_file() && is_text(&path) {
            files.push(read_file(root, path)?);
        }
    }
    Ok(())
}

fn read_file(root: &Path, path: String) -> Result<File, String> {
    match fs::read_to_string(root.join(&path)) {
        Ok(text) => Ok(File { path, text }),
        Err(error) => Err(format!("cannot read `{path}`: {error}")),
    }
}

fn is_text(path: &str) -> bool {
    let extension = path.rsplit_once('.').map_or("", |(_, extension)| extension);
    EXTENSIONS.contains(&extension) || path == ".ci/run"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_file_is_found() {
        let files = read(&crate::root()).unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/tree.rs"));
        assert!(files.iter().any(|file| file.path == ".ci/run"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn the_parts_of_a_path() {
        let file = File::new("docs/design/0001.md", "");
        assert_eq!((file.folder(), file.extension()), ("docs/design", "md"));
        let file = File::new(".ci/run", "");
        assert_eq!((file.folder(), file.extension()), (".ci", ""));
        assert_eq!(File::new("README.md", "").folder(), "");
    }
}
