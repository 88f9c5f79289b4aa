//! Statistics of a limiter.

use core::time::Duration;

use crate::policy::QUOTAS_MAX;

/// The memory of a limiter, and counters of its events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys in the table.
    pub keys: u64,
    /// Bytes of state: table, logs, sketches, shards.
    pub bytes: usize,
    /// The limit of `bytes`. It may be exceeded by a few hundred bytes where units would otherwise
    /// be lost.
    pub memory_limit: usize,
    /// Bytes of the table and the logs, without the overflow sketches.
    pub table_bytes: usize,
    /// The maximum of the table and the logs: `memory_limit` without the quarter that the overflow
    /// sketches may use. The table is full when `table_bytes` reaches it.
    pub table_limit: usize,
    /// Bytes of logs outside of the slots.
    pub log_bytes: usize,
    /// Units recorded in logs, as of the last complete sweep of each shard. If every request costs
    /// one unit, this is the number of log entries.
    pub log_units: u64,
    /// Keys that were moved into the overflow sketch to make space.
    pub evictions: u64,
    /// Requests of new keys that did not fit into the table.
    pub overflowed: u64,
    /// Keys that were removed because they could no longer affect a decision.
    pub swept: u64,
    /// The longest time that a lock was held while a table grew, was swept, or was saved.
    pub longest_hold: Duration,
    /// Callers that wait.
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
    /// Creates the usage for a store that is not in memory, with up to eight quotas.
    pub fn new(used: &[u64]) -> Self {
        let mut units = [0; QUOTAS_MAX];
        let quotas = used.len().min(QUOTAS_MAX);
        units[..quotas].copy_from_slice(&used[..quotas]);
        Self { units, quotas }
    }

    /// Returns the units that count against quota `index`, or zero if there is no such quota.
    pub fn units(&self, index: usize) -> u64 {
        self.as_slice().get(index).copied().unwrap_or(0)
    }

    /// Returns the units by quota, in the order of the policy.
    pub fn as_slice(&self) -> &[u64] {
        &self.units[..self.quotas]
    }
}

/// Units that were taken at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// The time since the Unix epoch.
    pub at: Duration,
    /// The number of units.
    pub units: u64,
}

impl Event {
    /// Creates an event at a time since the Unix epoch.
    pub fn new(at: Duration, units: u64) -> Self {
        Self { at, units }
    }
}
