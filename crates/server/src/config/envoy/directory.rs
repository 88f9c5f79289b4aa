//! A directory of files.

use std::fs;
use std::path::{Path, PathBuf};

/// The default directory, unless `RUNTIME_ROOT` and related variables set another one.
const ROOT: &str = "/srv/runtime_data/current";
const APP_DIRECTORY: &str = "config";

/// The maximum number of files in a directory.
const FILES_MAX: usize = 10_000;

/// The maximum nesting of directories.
const DEPTH_MAX: usize = 8;

/// The files of a directory.
#[derive(Debug, Default)]
pub(in crate::config) struct Listing {
    /// Files, ordered by path.
    pub(in crate::config) files: Vec<PathBuf>,
    /// The number of files that were skipped because their names start with a dot.
    pub(in crate::config) hidden: usize,
}

/// Lists all files in and below a directory.
///
/// Names that start with two dots are never read: Kubernetes keeps its own copies under them.
pub(in crate::config) fn list(directory: &Path, dotfiles: bool) -> Result<Listing, String> {
    let mut listing = Listing::default();
    walk(directory, dotfiles, 0, &mut listing)?;
    listing.files.sort();
    Ok(listing)
}

/// Returns the files of a directory that are loaded, ordered by path.
///
/// # Errors
///
/// Returns an error if a directory cannot be read, or there are too many files.
pub(crate) fn list_directory(directory: &Path, dotfiles: bool) -> Result<Vec<PathBuf>, String> {
    list(directory, dotfiles).map(|listing| listing.files)
}

fn walk(
    directory: &Path,
    dotfiles: bool,
    depth: usize,
    listing: &mut Listing,
) -> Result<(), String> {
    let name = directory.display();
    if depth > DEPTH_MAX {
        return Err(format!(
            "{name}: directories are nested deeper than {DEPTH_MAX} levels: use fewer levels"
        ));
    }
    let unreadable = |error: std::io::Error| format!("{name}: cannot be read ({error})");
    for entry in fs::read_dir(directory).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let file_name = entry.file_name();
        let file_name = file_name.to_string_lossy();
        if file_name.starts_with("..") {
            continue;
        }
        if file_name.starts_with('.') && !dotfiles {
            listing.hidden += 1;
            continue;
        }
        let path = entry.path();
        // Links are followed, so that swapped links of Kubernetes count as files.
        if path.is_dir() {
            walk(&path, dotfiles, depth + 1, listing)?;
        } else {
            listing.files.push(path);
        }
        if listing.files.len() > FILES_MAX {
            return Err(format!(
                "{name}: more than {FILES_MAX} files: put several limits into one"
            ));
        }
    }
    Ok(())
}

/// Returns the directory that the reference service would read, from its variables.
pub(in crate::config) fn reference_directory(variable: &dyn Fn(&str) -> Option<String>) -> PathBuf {
    let part = |name: &str, absent: &str| variable(name).unwrap_or_else(|| absent.to_owned());
    PathBuf::from(part("RUNTIME_ROOT", ROOT))
        .join(part("RUNTIME_SUBDIRECTORY", ""))
        .join(part("RUNTIME_APPDIRECTORY", APP_DIRECTORY))
}
