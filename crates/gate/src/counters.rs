//! The counters of a gate.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use crate::observe::{GateOutcome, Observation};

/// The counters of one gate, for `/metrics`. Gates of the same policy and mode share them.
#[derive(Debug, Default)]
pub struct Counters {
    outcomes: [Count; GateOutcome::ALL.len()],
    /// Decisions by the failure mode.
    pub degraded: Count,
    /// Requests that waited for units.
    pub waited: Count,
    /// For each outcome of the gate, the requests that the candidate would allow and would deny.
    candidate: [[Count; 2]; GateOutcome::ALL.len()],
    /// Time from request to decision.
    pub time: Histogram,
}

impl Counters {
    /// Returns how often an outcome occurred.
    pub fn outcome(&self, outcome: GateOutcome) -> u64 {
        self.outcomes[outcome as usize].get()
    }

    /// Returns how often an outcome occurred while the candidate would have allowed or denied.
    pub fn candidate(&self, outcome: GateOutcome, would_deny: bool) -> u64 {
        self.candidate[outcome as usize][usize::from(would_deny)].get()
    }

    /// Returns the requests that the candidate would have denied.
    pub fn candidate_denied(&self) -> u64 {
        GateOutcome::ALL.into_iter().map(|outcome| self.candidate(outcome, true)).sum()
    }

    #[inline]
    pub(crate) fn add(&self, observation: &Observation<'_>) {
        let outcome = observation.outcome as usize;
        self.outcomes[outcome].add(1);
        if observation.is_degraded {
            self.degraded.add(1);
        }
        if observation.has_waited {
            self.waited.add(1);
        }
        if let Some(would_deny) = observation.candidate_denies {
            self.candidate[outcome][usize::from(would_deny)].add(1);
        }
        if observation.outcome != GateOutcome::Off {
            self.time.record(observation.took);
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the number.
    #[inline]
    pub fn add(&self, by: u64) {
        // No decision depends on a counter, so no ordering is needed.
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// Returns the number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the histogram's buckets, in nanoseconds: 1 microsecond, doubling up to about a
/// second.
pub const BOUNDS: [u64; 21] = {
    let mut bounds = [0; 21];
    let mut index = 0;
    while index < bounds.len() {
        bounds[index] = 1_000 << index;
        index += 1;
    }
    bounds
};

/// A histogram of times.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    /// Adds a time.
    #[inline]
    pub fn record(&self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // The bounds double, so the number of bits selects the bucket.
        let above = (nanos.saturating_sub(1)) / BOUNDS[0];
        let bucket = (u64::BITS - above.leading_zeros()) as usize;
        self.buckets[bucket.min(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Returns, for each bound, the number of times that were at most the bound. The last number
    /// counts all.
    pub fn cumulative(&self) -> [u64; BOUNDS.len() + 1] {
        let mut sum = 0;
        core::array::from_fn(|bucket| {
            sum += self.buckets[bucket].load(Ordering::Relaxed);
            sum
        })
    }

    /// Returns the sum of all times.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests;
