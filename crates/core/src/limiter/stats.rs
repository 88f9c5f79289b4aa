//! What a limiter tells of itself.

use core::time::Duration;

use crate::policy::QUOTAS_MAX;

/// Where a limiter's memory stands, and what has happened to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys in the table.
    pub keys: u64,
    /// Bytes of state: table, logs, sketches, shards.
    pub bytes: usize,
    /// What `bytes` stays within, but for some hundred bytes where the alternative would be to forget.
    pub memory_limit: usize,
    /// Bytes of the table and the logs, without the overflow sketches.
    pub table_bytes: usize,
    /// The most bytes of the table and the logs: `memory_limit` without the quarter that the
    /// overflow sketches may use. The table is full when `table_bytes` reaches it.
    pub table_limit: usize,
    /// Bytes of logs outside of the table's slots.
    pub log_bytes: usize,
    /// Units on record in logs, as of the last complete sweep of each shard. If every request costs
    /// one unit, this is the number of log entries.
    pub log_units: u64,
    /// Keys that were moved into the overflow sketch to make room.
    pub evictions: u64,
    /// Requests of new keys that found no room in the table.
    pub overflowed: u64,
    /// Keys that were dropped because they could no longer change a decision.
    pub swept: u64,
    /// The longest that a lock was held while a table grew, was swept, or was saved.
    pub longest_hold: Duration,
    /// Callers that wait in line.
    pub waiters: usize,
    /// Keys that are blocked, as of the last sweep of each shard.
    pub blocked: u64,
}

/// Units that count against each quota of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub(super) units: [u64; QUOTAS_MAX],
    pub(super) quotas: usize,
}

impl Usage {
    /// Units by quota, of a store that is not in memory; the first eight.
    pub fn new(used: &[u64]) -> Self {
        let mut units = [0; QUOTAS_MAX];
        let quotas = used.len().min(QUOTAS_MAX);
        units[..quotas].copy_from_slice(&used[..quotas]);
        Self { units, quotas }
    }

    /// Units that count against quota `index`; zero if there is no such quota.
    pub fn units(&self, index: usize) -> u64 {
        self.as_slice().get(index).copied().unwrap_or(0)
    }

    /// Units by quota, in the order of the policy.
    pub fn as_slice(&self) -> &[u64] {
        &self.units[..self.quotas]
    }
}

/// Units that were taken at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// When, since the Unix epoch.
    pub at: Duration,
    /// How many.
    pub units: u64,
}

impl Event {
    /// Units that were taken at a time since the Unix epoch.
    pub fn new(at: Duration, units: u64) -> Self {
        Self { at, units }
    }
}
