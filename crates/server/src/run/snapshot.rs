//! Snapshots of counts on disk, so that they survive a restart.
//!
//! A directory with one file for each pool of counts. A file is written under another name, flushed to
//! the disk, and only then renamed: a crash leaves the old one or the new one. A lock on the directory keeps
//! other processes from writing theirs.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags, flock};
use slidegate::{Error, ErrorKind, RestoreReport};
use slidegate_gate::Kind::Gauge;
use slidegate_gate::Page;

use super::paths::check_directory;
use crate::admin::ResultCounts;
use crate::config::open_file;
use crate::engine::Plan;
use crate::gates::{Restore, StateId};
use crate::wall_clock::wall_clock;

/// A directory of snapshots, locked.
#[derive(Debug, Clone)]
pub struct Snapshots {
    folder: PathBuf,
    saves: Arc<ResultCounts>,
    /// Seconds since the Unix epoch at the last complete snapshot, or at the start.
    saved_at: Arc<AtomicU64>,
    /// Locked until it is closed.
    _lock: Arc<File>,
}

fn epoch_seconds() -> u64 {
    wall_clock().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// What a snapshot has written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SaveReport {
    /// Files.
    pub files: usize,
    /// Keys in them.
    pub keys: u64,
}

/// Restores the snapshots of a directory.
#[derive(Debug)]
pub struct Restorer {
    snapshots: Snapshots,
    start_empty_if_damaged: bool,
    /// Messages for the operator: a line for each file that was restored.
    pub restored: Vec<String>,
    /// Warnings for the operator: a line for each damaged file that was moved aside.
    pub damaged: Vec<String>,
}

impl Snapshots {
    /// Opens a directory, which is created if it does not exist, and locks it.
    ///
    /// # Errors
    ///
    /// When it cannot be created or written, or another process has locked it.
    pub fn new(folder: &Path) -> Result<Self, String> {
        Self::check(folder)?;
        let named =
            |error: io::Error| format!("cannot use {} for snapshots: {error}", folder.display());
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(named)?;
        let lock = lock(folder)?;
        remove_leftovers(folder).map_err(named)?;
        let (name, help) = ("slidegate_snapshots_total", "Times all state was written.");
        let saves = Arc::new(ResultCounts::new(name, help, &["ok", "failed"]));
        let saved_at = Arc::new(AtomicU64::new(epoch_seconds()));
        Ok(Self { folder: folder.to_owned(), saves, saved_at, _lock: Arc::new(lock) })
    }

    /// Checks whether a directory can be used, without changing anything.
    ///
    /// # Errors
    ///
    /// When it is a file, or cannot be created or written.
    pub(super) fn check(folder: &Path) -> Result<(), String> {
        if folder.exists() && !folder.is_dir() {
            return Err(format!(
                "snapshot.path {} is a file: use a directory, which holds one file per policy and is \
                 created if it does not exist",
                folder.display()
            ));
        }
        // The nearest directory that exists, in which the others are created.
        let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        check_directory("snapshot.path", folder, existing)
    }

    /// Writes a file for each pool of counts in memory.
    ///
    /// # Errors
    ///
    /// When a file cannot be written; those before it are.
    pub fn save(&self, plan: &Plan) -> Result<SaveReport, Error> {
        let saved = self.save_all(plan);
        self.saves.note(&saved);
        if saved.is_ok() {
            self.saved_at.store(epoch_seconds(), Ordering::Relaxed);
        }
        saved
    }

    /// Adds how often state was written, and when the last time was, to a page of metrics.
    pub(super) fn write_metrics(&self, page: &mut Page) {
        self.saves.write(page);
        page.family(
            "slidegate_snapshot_last_success_timestamp_seconds",
            Gauge,
            "Unix time of the last complete snapshot, or of the start if there was none since.",
        );
        page.sample(&[], self.saved_at.load(Ordering::Relaxed));
    }

    fn save_all(&self, plan: &Plan) -> Result<SaveReport, Error> {
        let mut report = SaveReport::default();
        for (id, store) in plan.stores() {
            if let Some(limiter) = store.in_process() {
                let path = self.path(id);
                report.keys += self
                    .replace(&path, |file| limiter.save(file))
                    .map_err(|error| at(&path, &error))?;
                report.files += 1;
            }
        }
        Ok(report)
    }

    /// Restores into a new engine.
    pub fn restorer(&self, start_empty_if_damaged: bool) -> Restorer {
        Restorer {
            snapshots: self.clone(),
            start_empty_if_damaged,
            restored: Vec::new(),
            damaged: Vec::new(),
        }
    }

    /// Writes a file and puts it in place of `path` when it is on the disk.
    fn replace<T>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let (fresh, file) = create_temporary(path).map_err(|error| failed(&error))?;
        let written = write_and_rename(&file, &fresh, path, write);
        if written.is_err() {
            // The next start removes it if this fails too.
            let _ = fs::remove_file(&fresh);
        }
        let written = written?;
        let folder = File::open(&self.folder).map_err(|error| failed(&error))?;
        folder.sync_all().map_err(|error| failed(&error))?;
        Ok(written)
    }

    fn path(&self, id: &StateId) -> PathBuf {
        let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
        let letter = |byte: u8| match byte {
            byte if plain(&byte) => char::from(byte).to_string(),
            other => format!("%{other:02x}"),
        };
        let name: String = id.name.bytes().map(letter).collect();
        self.folder.join(format!("{name}.{}.{}.snapshot", id.algorithm, id.quotas))
    }
}

impl Restore for Restorer {
    fn open(&mut self, state: &StateId) -> Result<Option<Box<dyn Read>>, Error> {
        let path = self.snapshots.path(state);
        match open_file(&path) {
            Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(1 << 20, file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path, &failed(&error))),
        }
    }

    fn ended(&mut self, state: &StateId, read: Result<RestoreReport, Error>) -> Result<(), Error> {
        let path = self.snapshots.path(state);
        let error = match read {
            Ok(RestoreReport { keys, dropped, .. }) => {
                self.restored.push(format!(
                    "{}: {keys} keys restored, {dropped} did not fit and are counted in the overflow sketch",
                    path.display()
                ));
                return Ok(());
            }
            Err(error) => error,
        };
        if !self.start_empty_if_damaged {
            let message = format!(
                "snapshot {}: {error}. Put back a good one, or move it away, or set \
                 `snapshot.start_empty_if_damaged` to start without these counts: every key may \
                 then be allowed its limit once more",
                path.display()
            );
            return Err(Error::new(ErrorKind::Snapshot, message));
        }
        let aside = path.with_extension("damaged");
        fs::rename(&path, &aside).map_err(|error| at(&path, &failed(&error)))?;
        self.damaged.push(format!(
            "{}: {error}; starting without these counts, the file is now {}",
            path.display(),
            aside.display()
        ));
        Ok(())
    }
}

/// Creates a file next to `path` under a random name. A file or link of that name is an
/// error, so nothing outside of the directory is ever written.
fn create_temporary(path: &Path) -> io::Result<(PathBuf, File)> {
    let random = RandomState::new().hash_one(path);
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{random:016x}.{TEMPORARY}"));
    let fresh = PathBuf::from(name);
    // It holds the secret of the fingerprints.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
    Ok((fresh, file))
}

/// The extension of files that are being written.
const TEMPORARY: &str = "tmp";

fn write_and_rename<T>(
    file: &File,
    fresh: &Path,
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Error>,
) -> Result<T, Error> {
    let mut buffer = BufWriter::with_capacity(1 << 20, file);
    let written = write(&mut buffer)?;
    buffer.flush().map_err(|error| failed(&error))?;
    drop(buffer);
    file.sync_all().map_err(|error| failed(&error))?;
    fs::rename(fresh, path).map_err(|error| failed(&error))?;
    Ok(written)
}

/// Locks a directory until the returned file is closed, which the kernel does at the end of the process.
fn lock(folder: &Path) -> Result<File, String> {
    let path = folder.join("lock");
    let named = |error: &dyn core::fmt::Display| format!("cannot lock {}: {error}", path.display());
    // Reading the owner below must not wait if it is a pipe.
    let flags = i32::try_from((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits()).unwrap_or(0);
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
    let mut file = options.open(&path).map_err(|error| named(&error))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut owner = String::new();
            let _ = (&mut file).take(32).read_to_string(&mut owner);
            return Err(format!(
                "snapshot.path {} is in use by another process (id {}): use another directory for each \
                 daemon, or their counts would replace each other",
                folder.display(),
                owner.trim()
            ));
        }
        Err(error) => return Err(named(&error)),
    }
    // Only for the message above.
    let _ = file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id()));
    Ok(file)
}

/// Removes files that an earlier process did not finish.
fn remove_leftovers(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let ends_with = |end: &str| path.extension().is_some_and(|extension| extension == end);
        // `api.log.1.snapshot.0123456789abcdef.tmp`, and what older versions wrote.
        let is_temporary = path.file_name().is_some_and(|name| {
            ends_with(TEMPORARY) && name.to_string_lossy().contains(".snapshot.")
        });
        if is_temporary || ends_with("fresh") {
            fs::remove_file(&path)?;
        }
    }
    Ok(())
}

fn failed(error: &io::Error) -> Error {
    Error::new(ErrorKind::Snapshot, error.to_string())
}

fn at(path: &Path, error: &Error) -> Error {
    Error::new(ErrorKind::Snapshot, format!("snapshot {}: {error}", path.display()))
}
