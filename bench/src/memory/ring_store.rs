//! A ring of 64-bit timestamps for every key.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::HashMap;

use parking_lot::Mutex;

use crate::memory::store::Store;
use crate::ring::Ring;

/// One map of rings, each with room for the whole limit. No mutex and no string for each key, so it
/// is smaller than what articles show.
#[derive(Debug)]
pub(crate) struct RingStore {
    rings: Mutex<HashMap<u64, Ring>>,
    millis: AtomicU64,
    limit: usize,
}

impl RingStore {
    /// `limit` units in any minute.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            rings: Mutex::default(),
            millis: AtomicU64::new(0),
            limit: usize::try_from(limit).unwrap_or(usize::MAX),
        }
    }

    fn now(&self) -> i64 {
        let nanos = self.millis.load(Ordering::Relaxed) * 1_000_000;
        i64::try_from(nanos).unwrap_or(i64::MAX)
    }
}

impl Store for RingStore {
    type Scratch = ();

    fn set_time(&self, millis: u64) {
        self.millis.store(millis, Ordering::Relaxed);
    }

    fn ask(&self, _lane: &mut (), keys: &[u64]) {
        for key in keys {
            self.ask_units(*key, 1);
        }
    }

    fn ask_units(&self, key: u64, units: u64) {
        let (now, mut rings) = (self.now(), self.rings.lock());
        let ring = rings.entry(key).or_insert_with(|| Ring::new(self.limit));
        for _ in 0..units {
            ring.check(now, self.limit);
        }
    }

    fn units(&self, key: u64) -> u64 {
        let (now, mut rings) = (self.now(), self.rings.lock());
        rings.get_mut(&key).map_or(0, |ring| ring.count(now) as u64)
    }

    fn accounted_bytes(&self) -> Option<u64> {
        None
    }
}
