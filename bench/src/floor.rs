//! The least a keyed limiter can do.

use hashbrown::HashTable;
use parking_lot::Mutex;

use crate::subject::{Subject, WINDOW_SECONDS};

/// Sharded tables of two counters per key: the same key, hash and clock as Slidegate, and nothing else.
///
/// It keeps no log, accounts no bytes, sweeps nothing and returns only a boolean.
#[derive(Debug)]
pub(crate) struct Floor<B> {
    shards: Box<[Shard]>,
    basis: B,
    limit: u32,
    window: u64,
}

/// The parts of Slidegate that the floor uses.
pub(crate) trait Basis: Sync {
    /// A keyed hash of the key.
    fn fingerprint(&self, key: &str) -> u64;

    /// Nanoseconds since the Unix epoch.
    fn now(&self) -> u64;
}

/// On a separate pair of cache lines, which the machine fetches together.
#[derive(Debug, Default)]
#[repr(align(128))]
struct Shard(Mutex<HashTable<Slot>>);

/// A fingerprint of the key and 16 bytes of state.
#[derive(Debug)]
struct Slot {
    fingerprint: u64,
    /// When the current window began.
    began: u64,
    previous: u32,
    current: u32,
}

const _: () = assert!(size_of::<Slot>() == 24, "the floor is 24 bytes a slot");

const SHARDS: usize = 1024;

impl<B: Basis> Floor<B> {
    /// `limit` units in about a minute.
    pub(crate) fn new(limit: u32, basis: B) -> Self {
        let shards = (0..SHARDS).map(|_| Shard::default()).collect();
        Self { shards, basis, limit, window: WINDOW_SECONDS * 1_000_000_000 }
    }

    /// The parts that it uses.
    pub(crate) fn basis(&self) -> &B {
        &self.basis
    }
}

impl<B: Basis> Subject for Floor<B> {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        let fingerprint = self.basis.fingerprint(key);
        let now = self.basis.now();
        // The table takes its tag from the top bits and its bucket from the bottom ones.
        let shard = &self.shards[(fingerprint >> 32) as usize % SHARDS];
        let mut table = shard.0.lock();
        if let Some(slot) = table.find_mut(fingerprint, |slot| slot.fingerprint == fingerprint) {
            return slot.check(self.limit, self.window, now);
        }
        let slot = Slot { fingerprint, began: now, previous: 0, current: 1 };
        table.insert_unique(fingerprint, slot, |slot| slot.fingerprint);
        true
    }
}

impl Slot {
    #[inline]
    fn check(&mut self, limit: u32, window: u64, now: u64) -> bool {
        let mut elapsed = now.saturating_sub(self.began);
        if elapsed >= window {
            self.previous = if elapsed < 2 * window { self.current } else { 0 };
            self.current = 0;
            elapsed %= window;
            self.began = now - elapsed;
        }
        let mut counted = u64::from(self.current);
        if self.previous != 0 {
            counted += (u64::from(self.previous) * (window - elapsed)).div_ceil(window);
        }
        let allowed = counted < u64::from(limit);
        self.current += u32::from(allowed);
        allowed
    }
}

#[cfg(test)]
mod tests {
    use core::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    impl Basis for &AtomicU64 {
        fn fingerprint(&self, key: &str) -> u64 {
            key.bytes()
                .fold(1, |hash: u64, byte| hash.wrapping_mul(0x0101).wrapping_add(byte.into()))
        }

        fn now(&self) -> u64 {
            self.load(Ordering::Relaxed)
        }
    }

    #[test]
    fn it_limits_and_forgets() {
        let now = AtomicU64::new(0);
        let floor = Floor::new(10, &now);
        let admitted = |key: &str| (0..20).filter(|_| floor.check(&mut (), key)).count();
        assert_eq!(admitted("alice"), 10);
        assert_eq!(admitted("bob"), 10);
        now.store(90_000_000_000, Ordering::Relaxed);
        assert_eq!(admitted("alice"), 5);
        now.store(300_000_000_000, Ordering::Relaxed);
        assert_eq!(admitted("alice"), 10);
    }
}
