//! A directory that is removed when it is dropped.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use rustix::fs::{FlockOperation, flock};

use super::ServerError;

/// The directory of one server: its data, its log, its socket.
#[derive(Debug)]
pub(super) struct Folder {
    path: PathBuf,
    /// Held while the directory is used. The kernel releases it when the process is killed.
    _lock: File,
}

/// Short, because the path of a socket has at most 107 bytes. Process id and a number follow.
const NAME: &str = "slidegate-";
const LOCK: &str = "lock";

impl Folder {
    /// Creates a directory that only this user can read.
    pub(super) fn new() -> Result<Self, ServerError> {
        sweep();
        let path =
            create().map_err(|error| failed("make a folder in", &env::temp_dir(), &error))?;
        let lock = File::create(path.join(LOCK)).map_err(|error| failed("lock", &path, &error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| failed("lock", &path, &error.into()))?;
        Ok(Self { path, _lock: lock })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), ServerError> {
        let path = self.join(name);
        fs::write(&path, text).map_err(|error| failed("write", &path, &error))
    }

    pub(super) fn join(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A directory that cannot be removed now is removed later.
        let _ = fs::remove_dir_all(&self.path);
    }
}

fn create() -> io::Result<PathBuf> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = env::temp_dir().join(format!("{NAME}{}-{number}", process::id()));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            // Left by a killed process with the same id.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Removes directories that killed tests left.
fn sweep() {
    for entry in fs::read_dir(env::temp_dir()).into_iter().flatten().flatten() {
        if is_abandoned(&entry.path()) {
            // Another test may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns `true` if its process is gone, and no process with another id namespace holds its lock.
fn is_abandoned(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let process = name.strip_prefix(NAME).and_then(|rest| rest.split_once('-'));
    let Some(process) = process.and_then(|(process, _)| process.parse::<u32>().ok()) else {
        return false;
    };
    let is_gone = !Path::new(&format!("/proc/{process}")).exists();
    let is_free = |lock: File| flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_gone && File::open(folder.join(LOCK)).is_ok_and(is_free)
}

fn failed(what: &str, path: &Path, error: &io::Error) -> ServerError {
    ServerError::new(format!("cannot {what} {}: {error}", path.display()))
}
