//! A wall clock of a server that a test controls, with libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::Connection;

use super::ServerError;
use super::folder::Folder;

/// The path in Debian's package, below the directory of the architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const LIBRARIES: &str = "/usr/lib";

/// The shared memory of libfaketime, which is not removed after a kill.
const SHARED: [&str; 2] = ["/dev/shm/faketime_shm_", "/dev/shm/sem.faketime_sem_"];

const MICROS: i64 = 1_000_000;

/// Less than the smallest jump, and more than two readings of one clock can differ.
const SLACK: i64 = MICROS / 10;

/// The file with the offset of a server's clock, and the library that applies it.
#[derive(Debug)]
pub(super) struct FakeClock {
    library: PathBuf,
    file: PathBuf,
}

impl FakeClock {
    pub(super) fn new(folder: &Folder) -> Result<Self, ServerError> {
        let clock = Self { library: find()?, file: folder.join("clock") };
        clock.set(0)?;
        Ok(clock)
    }

    /// Sets the clock to `offset` milliseconds after the real time, or before it if negative.
    pub(super) fn set(&self, offset: i64) -> Result<(), ServerError> {
        // Written to another file and renamed: the server may read it at any time, and must not
        // find it empty.
        let aside = self.file.with_extension("new");
        let failed = |error| ServerError::new(format!("cannot set the server's clock: {error}"));
        let sign = if offset < 0 { '-' } else { '+' };
        let (seconds, millis) = (offset.unsigned_abs() / 1000, offset.unsigned_abs() % 1000);
        fs::write(&aside, format!("{sign}{seconds}.{millis:03}\n")).map_err(failed)?;
        fs::rename(&aside, &self.file).map_err(failed)
    }

    /// Returns `true` if the clock of a server has this offset in milliseconds.
    pub(super) fn is_off_by(offset: i64, server: &mut Connection) -> Result<bool, ServerError> {
        let before = true_time();
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(server)?;
        let after = true_time();
        let seen = seconds * MICROS + micros - offset * 1000;
        Ok((before - SLACK..=after + SLACK).contains(&seen))
    }

    /// Returns the environment variables of the server's process.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let one = || "1".to_owned();
        vec![
            ("LD_PRELOAD", self.library.to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", one()),
            // The older name and the newer one. The event loop of the server uses this clock.
            ("DONT_FAKE_MONOTONIC", one()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", one()),
            ("NO_FAKE_STAT", one()),
        ]
    }

    /// Removes files that a killed process left.
    pub(super) fn clean_after(pid: u32) {
        for prefix in SHARED {
            // There are none if the process ended normally.
            let _ = fs::remove_file(format!("{prefix}{pid}"));
        }
    }
}

/// Microseconds since 1970.
#[expect(clippy::disallowed_methods, reason = "a server's clock is held against the machine's")]
fn true_time() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Returns the environment variables of a process with another wall clock, such as `+2h x3` for one
/// that is ahead and runs three times as fast. Its monotonic clock is not changed.
pub fn wall_clock(spec: &str) -> Result<Vec<(&'static str, String)>, ServerError> {
    let clock = FakeClock { library: find()?, file: PathBuf::new() };
    let mut variables = clock.variables();
    variables.retain(|(name, _)| *name != "FAKETIME_TIMESTAMP_FILE");
    variables.push(("FAKETIME", spec.to_owned()));
    Ok(variables)
}

fn find() -> Result<PathBuf, ServerError> {
    let folders = fs::read_dir(LIBRARIES).into_iter().flatten().flatten();
    let direct = Path::new(LIBRARIES).join(LIBRARY);
    let found = folders.map(|folder| folder.path().join(LIBRARY)).chain([direct]);
    found.into_iter().find(|path| path.is_file()).ok_or_else(|| {
        ServerError::new(
            "libfaketime is not installed: `cargo xtask test` as root installs it, \
             or `apt-get install libfaketime`",
        )
    })
}
