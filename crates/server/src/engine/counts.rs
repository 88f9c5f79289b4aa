//! What has happened to a limit.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

/// Counted for each limit. Survives a reload, as metrics must not go back.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests let through with room to spare.
    pub allowed: Count,
    /// Requests denied.
    pub denied: Count,
    /// Requests with room here that another limit turned away.
    pub denied_by_other: Count,
    /// Requests that would have been denied, were the limit enforced for them.
    pub shadow_denied: Count,
    /// Requests that met a limit which is switched off.
    pub off: Count,
    /// Decisions made without the store, which failed.
    pub degraded: Count,
    /// What a candidate would have denied.
    pub candidate_denied: Count,
    /// Time from question to answer.
    pub time: Histogram,
}

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    #[inline]
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn add_by(&self, by: u64) {
        self.0.fetch_add(by, Ordering::Relaxed);
    }

    /// The number.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Upper bounds of the histogram's parts, in nanoseconds: from a microsecond, doubling, to a second.
pub const BOUNDS: [u64; 21] = {
    let mut bounds = [0; 21];
    let mut index = 0;
    while index < bounds.len() {
        bounds[index] = 1_000 << index;
        index += 1;
    }
    bounds
};

/// How long decisions took.
#[derive(Debug, Default)]
pub struct Histogram {
    counts: [AtomicU64; BOUNDS.len() + 1],
    nanos: AtomicU64,
}

impl Histogram {
    #[inline]
    pub(crate) fn note(&self, nanos: u64) {
        // The bounds double, so the number of bits says which part it is.
        let above = (nanos.saturating_sub(1)) / BOUNDS[0];
        let part = (u64::BITS - above.leading_zeros()) as usize;
        self.counts[part.min(BOUNDS.len())].fetch_add(1, Ordering::Relaxed);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    /// How many took at most each bound; the last is of all.
    pub fn cumulative(&self) -> [u64; BOUNDS.len() + 1] {
        let mut sum = 0;
        core::array::from_fn(|part| {
            sum += self.counts[part].load(Ordering::Relaxed);
            sum
        })
    }

    /// The sum of all times.
    pub fn sum(&self) -> Duration {
        Duration::from_nanos(self.nanos.load(Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_counted_under_the_first_bound_that_holds_it() {
        for (nanos, part) in [
            (0, 0),
            (1_000, 0),
            (1_001, 1),
            (2_000, 1),
            (2_001, 2),
            (BOUNDS[20], 20),
            (BOUNDS[20] + 1, 21),
            (u64::MAX, 21),
        ] {
            let histogram = Histogram::default();
            histogram.note(nanos);
            let cumulative = histogram.cumulative();
            assert_eq!(cumulative.iter().position(|count| *count == 1), Some(part), "{nanos}");
        }
    }
}
