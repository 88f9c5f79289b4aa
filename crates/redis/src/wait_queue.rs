//! Queues of callers in this process that wait for units, one per key.
//!
//! Only the caller at the front of a queue calls Redis. The others wait for it, in order of arrival.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use slidegate::{Error, ErrorKind};
use tokio::sync::{Notify, OwnedMutexGuard};

/// The wait queues of one limiter, bounded in number and length.
#[derive(Debug)]
pub(crate) struct WaitQueues {
    state: Mutex<QueuesState>,
    /// The maximum number of waiting callers.
    waiters_max: usize,
    /// The maximum number of callers that wait for the same key.
    waiters_per_key_max: usize,
}

#[derive(Debug, Default)]
struct QueuesState {
    by_key: HashMap<u64, WaitQueue>,
    waiters: usize,
}

#[derive(Debug)]
struct WaitQueue {
    turn: Arc<Turn>,
    waiters: usize,
    /// The units that all of them wait for.
    units: u64,
}

#[derive(Debug, Default)]
struct Turn {
    /// Held by the caller at the front. The others get it in order of arrival.
    front: Arc<tokio::sync::Mutex<()>>,
    /// Units of the key were returned, or its block was lifted.
    returned: Notify,
}

/// A place in a queue, given up when it is dropped.
#[derive(Debug)]
pub(crate) struct QueuePlace<'a> {
    queues: &'a WaitQueues,
    key: u64,
    units: u64,
    turn: Arc<Turn>,
}

/// The front of a queue, until it is dropped.
pub(crate) type Front = OwnedMutexGuard<()>;

impl WaitQueues {
    pub(crate) fn new(waiters_max: usize, waiters_per_key_max: usize) -> Self {
        Self { state: Mutex::default(), waiters_max, waiters_per_key_max }
    }

    /// Returns the number of waiting callers.
    pub(crate) fn waiters(&self) -> usize {
        self.state.lock().waiters
    }

    /// Returns the units that the callers in a key's queue wait for, or `None` if there is no queue.
    pub(crate) fn units(&self, key: u64) -> Option<u64> {
        self.state.lock().by_key.get(&key).map(|queue| queue.units)
    }

    /// Takes the last place in a key's queue.
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Waiters`] if the maximum number of callers waits already.
    pub(crate) fn join(&self, key: u64, units: u64) -> Result<QueuePlace<'_>, Error> {
        let mut state = self.state.lock();
        let in_queue = state.by_key.get(&key).map_or(0, |queue| queue.waiters);
        if in_queue >= self.waiters_per_key_max {
            return Err(too_many(&format!(
                "{in_queue} callers wait for this key already: raise waiters_per_key_max"
            )));
        }
        if state.waiters >= self.waiters_max {
            return Err(too_many(&format!(
                "{} callers wait already: raise waiters_max",
                state.waiters
            )));
        }
        state.waiters += 1;
        let new = || WaitQueue { turn: Arc::default(), waiters: 0, units: 0 };
        let queue = state.by_key.entry(key).or_insert_with(new);
        queue.waiters += 1;
        queue.units = queue.units.saturating_add(units);
        Ok(QueuePlace { queues: self, key, units, turn: Arc::clone(&queue.turn) })
    }

    /// Makes the caller at the front of a key's queue check again.
    pub(crate) fn notify(&self, key: u64) {
        if let Some(queue) = self.state.lock().by_key.get(&key) {
            queue.turn.returned.notify_one();
        }
    }
}

fn too_many(what: &str) -> Error {
    Error::new(ErrorKind::Waiters, format!("{what} or shed load earlier"))
}

impl QueuePlace<'_> {
    /// Returns the front of the queue if no other caller has it.
    pub(crate) fn try_front(&self) -> Option<Front> {
        Arc::clone(&self.turn.front).try_lock_owned().ok()
    }

    /// Waits for the front of the queue.
    pub(crate) async fn front(&self) -> Front {
        Arc::clone(&self.turn.front).lock_owned().await
    }

    /// Waits until units of the key are returned in this process.
    pub(crate) async fn returned(&self) {
        self.turn.returned.notified().await;
    }
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = self.queues.state.lock();
        state.waiters -= 1;
        if let Some(queue) = state.by_key.get_mut(&self.key) {
            queue.waiters -= 1;
            queue.units = queue.units.saturating_sub(self.units);
            if queue.waiters == 0 {
                state.by_key.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests;
