//! Shards that several threads use at a time.

use crate::sync::atomic::{AtomicU32, Ordering};

/// Remembers for a while that a batch found a shard's lock taken by another thread.
///
/// A batch holds its locks for as long as its memory takes to arrive, which is many times longer than
/// a check takes. Two threads with batches that contain the same hot keys would mostly wait for each
/// other, so batches leave such a shard to single checks.
#[derive(Debug, Default)]
pub(super) struct Contention(pub(super) AtomicU32);

impl Contention {
    /// Batches that do not lock the shard after one of them found it locked.
    pub(super) const BATCHES: u32 = 64;

    pub(super) fn mark(&self) {
        self.0.store(Self::BATCHES, Ordering::Relaxed);
    }

    /// Returns `true` if the shard should not be locked, and counts the batch.
    pub(super) fn is_busy(&self) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        // Another thread may count at the same time. One batch more or less does not matter.
        if left > 0 {
            self.0.store(left - 1, Ordering::Relaxed);
        }
        left > 0
    }
}
