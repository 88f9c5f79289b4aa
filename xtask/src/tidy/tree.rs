//! The text files of the repository.

use std::fs;
use std::path::Path;

/// A text file: its path from the root, separated by `/`, and its content.
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

    /// Returns the part of the name after the last dot, or an empty string.
    pub(super) fn extension(&self) -> &str {
        let name = self.path.rsplit('/').next().unwrap_or_default();
        name.rsplit_once('.').map_or("", |(_, extension)| extension)
    }

    /// Returns the directory of the file without a slash at the end. It is empty at the root.
    pub(super) fn folder(&self) -> &str {
        self.path.rsplit_once('/').map_or("", |(folder, _)| folder)
    }
}

/// Directories of generated files, or of files from elsewhere.
const SKIPPED: &[&str] = &[".git", "artifacts", "corpus", "dist", "node_modules", "target"];

/// Extensions of text files that people write.
const EXTENSIONS: &[&str] =
    &["js", "json", "lua", "md", "mjs", "proto", "py", "rs", "sh", "toml", "ts", "yaml", "yml"];

/// The maximum depth. A deeper tree is a loop of links.
const DEPTH_MAX: usize = 16;

/// Reads every text file below `root`, ordered by path.
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
        return Err(format!("`{folder}` is deeper than {DEPTH_MAX} directories"));
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
    fn finds_text_files_and_skips_the_target_directory() {
        let files = read(&crate::root()).unwrap();
        assert!(files.iter().any(|file| file.path == "xtask/src/tidy/tree.rs"));
        assert!(files.iter().any(|file| file.path == ".ci/run"));
        assert!(!files.iter().any(|file| file.path.starts_with("target/")));
    }

    #[test]
    fn splits_a_path() {
        let file = File::new("docs/design/0001.md", "");
        assert_eq!((file.folder(), file.extension()), ("docs/design", "md"));
        let file = File::new(".ci/run", "");
        assert_eq!((file.folder(), file.extension()), (".ci", ""));
        assert_eq!(File::new("README.md", "").folder(), "");
    }
}
