//! The lines of callers in this process that wait for units, one per key.
//!
//! Only the caller at the front of a line calls Redis. The others wait for it, in order of arrival.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Error, ErrorKind};
use tokio::sync::{Notify, OwnedMutexGuard};

/// The lines of one limiter, bounded in number and length.
#[derive(Debug)]
pub(crate) struct Lines {
    state: Mutex<LinesState>,
    /// Most callers that may wait.
    waiters_max: usize,
    /// Most callers that may wait for the same key.
    waiters_per_key_max: usize,
}

#[derive(Debug, Default)]
struct LinesState {
    by_key: HashMap<u64, Line>,
    waiters: usize,
}

#[derive(Debug)]
struct Line {
    turn: Arc<Turn>,
    waiters: usize,
    /// What all of them wait for.
    units: u64,
}

#[derive(Debug, Default)]
struct Turn {
    /// Held by the caller at the front. Others get it in the order in which they asked for it.
    front: Arc<tokio::sync::Mutex<()>>,
    /// Units of the key were returned, or its block was lifted.
    returned: Notify,
}

/// A place in a line, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct Place<'a> {
    lines: &'a Lines,
    key: u64,
    units: u64,
    turn: Arc<Turn>,
}

/// The front of a line, until it is dropped.
pub(crate) type Front = OwnedMutexGuard<()>;

impl Lines {
    pub(crate) fn new(waiters_max: usize, waiters_per_key_max: usize) -> Self {
        Self { state: Mutex::default(), waiters_max, waiters_per_key_max }
    }

    /// The number of callers that wait.
    pub(crate) fn waiters(&self) -> usize {
        self.state.lock().waiters
    }

    /// What the callers in a key's line wait for. Returns `None` if there is no line.
    pub(crate) fn units(&self, key: u64) -> Option<u64> {
        self.state.lock().by_key.get(&key).map(|line| line.units)
    }

    /// Takes the last place in a key's line.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Waiters`] if as many callers wait already as may.
    pub(crate) fn join(&self, key: u64, units: u64) -> Result<Place<'_>, Error> {
        let mut state = self.state.lock();
        let in_line = state.by_key.get(&key).map_or(0, |line| line.waiters);
        if in_line >= self.waiters_per_key_max {
            return Err(too_many(&format!(
                "{in_line} callers wait for this key already: raise waiters_per_key_max"
            )));
        }
        if state.waiters >= self.waiters_max {
            return Err(too_many(&format!(
                "{} callers wait already: raise waiters_max",
                state.waiters
            )));
        }
        state.waiters += 1;
        let new = || Line { turn: Arc::default(), waiters: 0, units: 0 };
        let line = state.by_key.entry(key).or_insert_with(new);
        line.waiters += 1;
        line.units = line.units.saturating_add(units);
        Ok(Place { lines: self, key, units, turn: Arc::clone(&line.turn) })
    }

    /// Makes the caller at the front of a key's line ask again.
    pub(crate) fn notify(&self, key: u64) {
        if let Some(line) = self.state.lock().by_key.get(&key) {
            line.turn.returned.notify_one();
        }
    }
}

fn too_many(what: &str) -> Error {
    Error::new(ErrorKind::Waiters, format!("{what} or shed load earlier"))
}

impl Place<'_> {
    /// Returns the front of the line if no other caller has it.
    pub(crate) fn try_front(&self) -> Option<Front> {
        Arc::clone(&self.turn.front).try_lock_owned().ok()
    }

    /// Waits for the front of the line.
    pub(crate) async fn front(&self) -> Front {
        Arc::clone(&self.turn.front).lock_owned().await
    }

    /// Waits until units of the key are returned in this process.
    pub(crate) async fn returned(&self) {
        self.turn.returned.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut state = self.lines.state.lock();
        state.waiters -= 1;
        if let Some(line) = state.by_key.get_mut(&self.key) {
            line.waiters -= 1;
            line.units = line.units.saturating_sub(self.units);
            if line.waiters == 0 {
                state.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
