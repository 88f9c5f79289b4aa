//! Bytes, counted as they are taken.

use crate::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What all state may take, and what it takes.
///
/// Counts the table's arrays, every block of a log or ring with the allocator's share, and the
/// overflow sketches. Growth asks first, so the sum stays within the limit.
#[derive(Debug)]
pub(crate) struct Account {
    used: AtomicUsize,
    /// May change while it is in use: what was taken stays taken.
    limit: AtomicUsize,
    /// Whether the last request for bytes was refused.
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

    /// Takes `bytes` if the limit allows.
    // One counter that orders no other memory, so `Relaxed` is enough throughout.
    pub(crate) fn try_grow(&self, bytes: usize) -> bool {
        // Reads first: in a flood nearly all requests are refused, and a refusal must not take the
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

    /// Takes `bytes` that are in use already, whatever the limit says.
    pub(crate) fn grow(&self, bytes: usize) {
        if bytes > 0 {
            self.used.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn shrink(&self, bytes: usize) {
        if bytes > 0 {
            let before = self.used.fetch_sub(bytes, Ordering::Relaxed);
            debug_assert!(before >= bytes, "gave back {bytes} of {before} bytes");
            // Written only when it changes: the cache line is shared by all threads.
            if self.is_full.load(Ordering::Relaxed) {
                self.is_full.store(false, Ordering::Relaxed);
            }
        }
    }

    /// Whether what was taken whatever the limit says is still within it.
    pub(crate) fn fits(&self) -> bool {
        self.used() <= self.limit()
    }

    /// From now on, growth is held against this.
    pub(crate) fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes that cannot be taken any more: the limit as soon as a request was refused, although
    /// a few bytes less than that request may be left.
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
