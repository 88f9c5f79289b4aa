//! Memory accounting.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The memory limit of all state, and the bytes in use.
///
/// It counts the arrays of the table, every block of a log or ring with the allocator's overhead,
/// and the overflow sketches. Growth reserves bytes first, so the sum stays within the limit.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicUsize,
    /// May change while in use. Bytes in use stay counted.
    limit: AtomicUsize,
    /// Whether the last reservation failed.
    is_full: AtomicBool,
}

impl Account {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            used: AtomicUsize::new(0),
            limit: AtomicUsize::new(limit),
            is_full: AtomicBool::new(false),
        }
    }

    #[cfg(test)]
    pub(crate) fn unlimited() -> Self {
        Self::new(usize::MAX / 2)
    }

    /// Reserves `bytes` if the limit allows.
    // One counter that orders no other memory, so `Relaxed` is enough.
    pub(crate) fn try_grow(&self, bytes: usize) -> bool {
        // Reads first: in a flood, nearly all reservations fail, and a failure must not take the
        // cache line away from other threads.
        if self.used().saturating_add(bytes) > self.limit() {
            if !self.is_full.load(Ordering::Relaxed) {
                self.is_full.store(true, Ordering::Relaxed);
            }
            return false;
        }
        if bytes == 0 {
            return true;
        }
        let before = self.used.fetch_add(bytes, Ordering::Relaxed);
        let fits = before.saturating_add(bytes) <= self.limit();
        if !fits {
            self.used.fetch_sub(bytes, Ordering::Relaxed);
        }
        if self.is_full.load(Ordering::Relaxed) == fits {
            self.is_full.store(!fits, Ordering::Relaxed);
        }
        fits
    }

    /// Counts `bytes` that are in use already, regardless of the limit.
    pub(crate) fn grow(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "released {bytes} of {before} bytes");
            // Written only if it changes, because all threads share the cache line.
            if self.is_full.load(Ordering::Relaxed) {
                self.is_full.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Returns `true` if the bytes in use are within the limit.
    pub(crate) fn fits(&self) -> bool {
        self.used() <= self.limit()
    }

    /// Sets the limit for later reservations.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Returns the bytes that cannot be reserved any more: the limit as soon as a reservation
    /// failed, although a few bytes may be left.
    pub(crate) fn unavailable(&self) -> usize {
        if self.is_full.load(Ordering::Relaxed) {
            self.used().max(self.limit())
        } else {
            self.used()
        }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit.load(Ordering::Relaxed)
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}
