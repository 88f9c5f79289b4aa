//! Watches the files of the configuration.
//!
//! The files are polled. Kernel notifications are tied to an existing directory, so they miss
//! replaced directories, changed links and directories that are created later, and they report
//! every other file in a directory. Examining a file twice a second takes a few microseconds, and
//! sees what the next load would read.

use core::hash::{Hash, Hasher};
use core::time::Duration;
use std::fs;
use std::hash::DefaultHasher;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use crate::config::{Loaded, list_directory, read_file};

/// The polling interval.
pub(super) const INTERVAL: Duration = Duration::from_millis(500);

/// Changed files are loaded when they were the same in this many further polls, so that a file is
/// not loaded while it is being written.
pub(super) const QUIET_POLLS: u32 = 2;

/// The identity and the times of every watched file. `None` if it does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Stamps(Vec<(PathBuf, Option<Stamp>)>);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Stamp {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// The files of the configuration as they were when it was loaded.
#[derive(Debug, Default)]
pub(super) struct Watched {
    files: Vec<PathBuf>,
    dotfiles: bool,
    stamps: Stamps,
    /// A hash. `None` if the files have changed since they were loaded.
    contents: Option<u64>,
}

impl Watched {
    /// Watches the files of a configuration.
    pub(super) fn of_loaded(loaded: &Loaded) -> Self {
        Self::new(loaded.files.clone(), loaded.dotfiles)
    }

    /// Watches these files and directories. In directories, files whose names start with a dot are
    /// watched only with `dotfiles`.
    fn new(files: Vec<PathBuf>, dotfiles: bool) -> Self {
        let stamps = Stamps::of(&files, dotfiles);
        let contents = stamps.contents();
        Self { files, dotfiles, stamps, contents: Some(contents) }
    }

    /// Returns the current state of the same files.
    pub(super) fn again(&self) -> Self {
        self.of(&self.files)
    }

    /// Returns the current state of other files.
    pub(super) fn of(&self, files: &[PathBuf]) -> Self {
        Self::new(files.to_vec(), self.dotfiles)
    }

    /// Returns `true` if these files are watched.
    pub(super) fn is_of(&self, files: &[PathBuf]) -> bool {
        self.files == files
    }

    /// Watches `files` from now on. If they are others, they count as changed.
    pub(super) fn or_new(self, files: &[PathBuf]) -> Self {
        if self.is_of(files) {
            return self;
        }
        Self { files: files.to_vec(), dotfiles: self.dotfiles, ..Self::default() }
    }

    /// Returns the current stamps if they differ from those at the last load.
    pub(super) fn poll(&self) -> Option<Stamps> {
        let stamps = Stamps::of(&self.files, self.dotfiles);
        (stamps != self.stamps).then_some(stamps)
    }

    /// Returns `true` if the contents differ too. If they do not, later polls compare with
    /// `stamps`.
    pub(super) fn has_new_contents(&mut self, stamps: Stamps) -> bool {
        let is_new = Some(stamps.contents()) != self.contents;
        if !is_new {
            self.stamps = stamps;
        }
        is_new
    }
}

impl Stamps {
    fn of(files: &[PathBuf], dotfiles: bool) -> Self {
        let mut stamps = Vec::new();
        for path in files {
            if path.is_dir() {
                // A directory that cannot be listed has no files. Loading reports the reason.
                let listed = list_directory(path, dotfiles).unwrap_or_default();
                stamps.extend(listed.into_iter().map(Self::one));
            } else {
                stamps.push(Self::one(path.clone()));
            }
        }
        stamps.sort_by(|(one, _), (other, _)| one.cmp(other));
        stamps.dedup_by(|(one, _), (other, _)| one == other);
        Self(stamps)
    }

    fn one(path: PathBuf) -> (PathBuf, Option<Stamp>) {
        let stamp = fs::metadata(&path).ok().map(|file| Stamp {
            device: file.dev(),
            inode: file.ino(),
            size: file.size(),
            modified: (file.mtime(), file.mtime_nsec()),
            changed: (file.ctime(), file.ctime_nsec()),
        });
        (path, stamp)
    }

    /// Returns a hash of all paths and their contents, or why they cannot be read.
    fn contents(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for (path, _) in &self.0 {
            path.hash(&mut hasher);
            read_file(path).hash(&mut hasher);
        }
        hasher.finish()
    }
}
