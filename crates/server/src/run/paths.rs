//! Whether paths of the configuration can be used, without changing anything.

use std::path::Path;

use rustix::fs::{Access, access};

/// Checks whether files can be created in the directory `existing`. The message names the setting and
/// its path.
pub(super) fn check_directory(setting: &str, path: &Path, existing: &Path) -> Result<(), String> {
    let (path, name) = (path.display(), existing.display());
    // The directory of a bare file name.
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    if !existing.exists() {
        return Err(format!("{setting} {path}: the directory {name} does not exist: create it"));
    }
    if !existing.is_dir() {
        return Err(format!("{setting} {path}: {name} is not a directory"));
    }
    access(existing, Access::WRITE_OK | Access::EXEC_OK)
        .map_err(|error| format!("{setting} {path}: cannot write in the directory {name}: {error}"))
}
