//! Counts on disk, so that a restart forgives nothing.
//!
//! One file for each pool in a folder. A file is written beside its place, brought to the disk, and
//! only then renamed: a crash leaves the old one or the new one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use slidegate::{Error, ErrorKind, RestoreReport};

use crate::admin::ResultCounts;
use crate::engine::Plan;
use crate::gates::{Restore, StateId};

/// A folder of snapshots.
#[derive(Debug, Clone)]
pub struct Snapshots {
    folder: PathBuf,
    saves: Arc<ResultCounts>,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SaveReport {
    /// Files.
    pub files: usize,
    /// Keys in them.
    pub keys: u64,
}

/// Brings back what a folder holds.
#[derive(Debug)]
pub struct Restorer {
    snapshots: Snapshots,
    start_empty_if_damaged: bool,
    /// What to tell the operator: a line for each file.
    pub told: Vec<String>,
}

impl Snapshots {
    /// The snapshots in `folder`, which is made if it is not there.
    ///
    /// # Errors
    ///
    /// When it cannot be made.
    pub fn new(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let (name, help) = ("slidegate_snapshots_total", "Times all state was written.");
        let saves = Arc::new(ResultCounts::new(name, help, &["ok", "failed"]));
        Ok(Self { folder: folder.to_owned(), saves })
    }

    /// Writes all that is in memory.
    ///
    /// # Errors
    ///
    /// When a file cannot be written; those before it are.
    pub fn save(&self, plan: &Plan) -> Result<SaveReport, Error> {
        let saved = self.save_all(plan);
        self.saves.note(&saved);
        saved
    }

    /// Returns how often state was written, by result.
    pub fn counts(&self) -> &Arc<ResultCounts> {
        &self.saves
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
        Restorer { snapshots: self.clone(), start_empty_if_damaged, told: Vec::new() }
    }

    fn replace<T>(
        &self,
        path: &Path,
        write: impl FnOnce(&mut BufWriter<&File>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let fresh = path.with_extension("fresh");
        // It holds the secret of the fingerprints.
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&fresh).map_err(|error| failed(&error))?;
        let mut buffer = BufWriter::with_capacity(1 << 20, &file);
        let written = write(&mut buffer)?;
        buffer.flush().map_err(|error| failed(&error))?;
        drop(buffer);
        file.sync_all().map_err(|error| failed(&error))?;
        fs::rename(&fresh, path).map_err(|error| failed(&error))?;
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
        match File::open(&path) {
            Ok(file) => Ok(Some(Box::new(BufReader::with_capacity(1 << 20, file)))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(at(&path, &failed(&error))),
        }
    }

    fn ended(&mut self, state: &StateId, read: Result<RestoreReport, Error>) -> Result<(), Error> {
        let path = self.snapshots.path(state);
        let error = match read {
            Ok(RestoreReport { keys, dropped, .. }) => {
                self.told.push(format!(
                    "{}: {keys} keys restored, {dropped} found no room and are counted together",
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
        self.told.push(format!(
            "{}: {error}; starting without these counts, the file is now {}",
            path.display(),
            aside.display()
        ));
        Ok(())
    }
}

fn failed(error: &io::Error) -> Error {
    Error::new(ErrorKind::Snapshot, error.to_string())
}

fn at(path: &Path, error: &Error) -> Error {
    Error::new(ErrorKind::Snapshot, format!("snapshot {}: {error}", path.display()))
}
