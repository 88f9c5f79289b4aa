//! A server's wall clock in the hands of a test, by libfaketime.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use redis::Connection;

use super::ServerError;
use super::folder::Folder;

/// Where Debian's package puts it, below the folder of the machine's architecture.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";
const LIBRARIES: &str = "/usr/lib";

/// Where libfaketime keeps a few bytes a process; it does not clean up after one that was killed.
const SHARED: [&str; 2] = ["/dev/shm/faketime_shm_", "/dev/shm/sem.faketime_sem_"];

const MICROS: i64 = 1_000_000;

/// Less than the smallest jump, more than two looks at one clock can differ.
const SLACK: i64 = MICROS / 10;

/// The file that says how far a server's clock is off, and the library that makes it so.
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

    /// Moves the clock to so many milliseconds after the true time; before it, if negative.
    pub(super) fn set(&self, offset: i64) -> Result<(), ServerError> {
        // Written aside and renamed: the server may read the file at any time, and must not find it
        // empty.
        let aside = self.file.with_extension("new");
        let failed = |error| ServerError::new(format!("cannot set the server's clock: {error}"));
        let sign = if offset < 0 { '-' } else { '+' };
        let (seconds, millis) = (offset.unsigned_abs() / 1000, offset.unsigned_abs() % 1000);
        fs::write(&aside, format!("{sign}{seconds}.{millis:03}\n")).map_err(failed)?;
        fs::rename(&aside, &self.file).map_err(failed)
    }

    /// Whether a server shows a clock that is off by so many milliseconds.
    pub(super) fn is_off_by(offset: i64, server: &mut Connection) -> Result<bool, ServerError> {
        let before = true_time();
        let (seconds, micros): (i64, i64) = redis::cmd("TIME").query(server)?;
        let after = true_time();
        let seen = seconds * MICROS + micros - offset * 1000;
        Ok((before - SLACK..=after + SLACK).contains(&seen))
    }

    /// What the server's process must find in its environment.
    pub(super) fn variables(&self) -> Vec<(&'static str, String)> {
        let one = || "1".to_owned();
        vec![
            ("LD_PRELOAD", self.library.to_string_lossy().into_owned()),
            ("FAKETIME_TIMESTAMP_FILE", self.file.to_string_lossy().into_owned()),
            ("FAKETIME_NO_CACHE", one()),
            // The older name and the newer one. The event loop of the server runs on this clock.
            ("DONT_FAKE_MONOTONIC", one()),
            ("FAKETIME_DONT_FAKE_MONOTONIC", one()),
            ("NO_FAKE_STAT", one()),
        ]
    }

    /// Removes what a killed process left behind.
    pub(super) fn clean_after(pid: u32) {
        for prefix in SHARED {
            // There is nothing when the process ended by itself.
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

/// What a process must find in its environment to see another wall clock than the true one, such
/// as `+2h x3` for one that is ahead and runs three times as fast. Its monotonic clock stays true.
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
