//! The design found in articles: a ring of timestamps for every key.

use std::collections::VecDeque;
use std::time::UNIX_EPOCH;

use dashmap::DashMap;
use parking_lot::Mutex;

use crate::clock;
use crate::subject::{Subject, WINDOW_SECONDS};

/// A map of mutexed rings of 64-bit timestamps, each with room for the whole limit from the start.
#[derive(Debug)]
pub(crate) struct RingPerKey {
    rings: DashMap<String, Mutex<Ring>>,
    limit: usize,
}

/// The timestamps, in nanoseconds, of the requests admitted to one key.
#[derive(Debug)]
pub(crate) struct Ring {
    times: VecDeque<i64>,
}

const WINDOW: i64 = WINDOW_SECONDS.cast_signed() * 1_000_000_000;

impl RingPerKey {
    /// `limit` units in any minute.
    pub(crate) fn new(limit: usize) -> Self {
        Self { rings: DashMap::new(), limit }
    }
}

impl Subject for RingPerKey {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        let since = clock::wall().duration_since(UNIX_EPOCH).unwrap_or_default();
        let now = i64::try_from(since.as_nanos()).unwrap_or(i64::MAX);
        if let Some(ring) = self.rings.get(key) {
            return ring.lock().check(now, self.limit);
        }
        let ring = || Mutex::new(Ring::new(self.limit));
        let ring = self.rings.entry(key.to_owned()).or_insert_with(ring);
        ring.lock().check(now, self.limit)
    }
}

impl Ring {
    /// An empty ring with room for `limit` timestamps.
    pub(crate) fn new(limit: usize) -> Self {
        Self { times: VecDeque::with_capacity(limit) }
    }

    /// Forgets what is older than a minute, then admits if there is room.
    #[inline]
    pub(crate) fn check(&mut self, now: i64, limit: usize) -> bool {
        self.expire(now);
        let allowed = self.times.len() < limit;
        if allowed {
            self.times.push_back(now);
        }
        allowed
    }

    /// Timestamps of the last minute.
    pub(crate) fn count(&mut self, now: i64) -> usize {
        self.expire(now);
        self.times.len()
    }

    #[inline]
    fn expire(&mut self, now: i64) {
        while self.times.front().is_some_and(|time| *time <= now - WINDOW) {
            self.times.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_frees_units_after_exactly_a_minute() {
        let mut ring = Ring::new(2);
        assert!(ring.check(0, 2));
        assert!(ring.check(1, 2));
        assert!(!ring.check(WINDOW - 1, 2));
        assert!(ring.check(WINDOW, 2));
        assert_eq!(ring.count(WINDOW), 2);
        assert_eq!(ring.count(WINDOW + 1), 1);
    }
}
