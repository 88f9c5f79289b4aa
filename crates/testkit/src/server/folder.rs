//! A folder that goes when it is dropped.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use super::ServerError;

/// A folder of one server: its data, its log, its socket.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
}

impl Folder {
    /// A new folder, for this user's eyes only.
    ///
    /// Its name is short: the path of a socket may have 107 bytes.
    pub(super) fn new() -> Result<Self, ServerError> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = env::temp_dir().join(format!("slidegate-{}-{number}", process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self { path }),
                // Left behind by a process of the same number that was killed.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let message = format!("cannot make the folder {}: {error}", path.display());
                    return Err(ServerError::new(message));
                }
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        let path = self.join(name);
        fs::write(&path, text)
            .map_err(|error| ServerError::new(format!("cannot write {}: {error}", path.display())))
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed is left to whoever cleans the temporary folder.
        let _ = fs::remove_dir_all(&self.path);
    }
}
