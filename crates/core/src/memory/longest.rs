//! How long entries are kept.

use crate::sync::atomic::{AtomicU64, Ordering};

/// The longest window that any key may be counted with.
#[derive(Debug)]
pub(super) struct Longest {
    /// The longest window of the policy and of the tiers created so far.
    own: AtomicU64,
    /// The longest window of the restored snapshot. Zero if there is none, and after `until`.
    restored: AtomicU64,
    /// The tick from which nothing in the restored snapshot counts.
    until: AtomicU64,
}

/// The windows of a snapshot, in ticks.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct KeptWindows {
    pub(crate) own: u64,
    pub(crate) restored: u64,
    pub(crate) until: u64,
}

impl KeptWindows {
    pub(crate) fn longest(&self) -> u64 {
        self.own.max(self.restored)
    }
}

impl Longest {
    pub(super) fn new(window: u64) -> Self {
        Self { own: AtomicU64::new(window), restored: AtomicU64::new(0), until: AtomicU64::new(0) }
    }

    // Set before a tier is returned, so every user of the tier sees it.
    pub(super) fn get(&self) -> u64 {
        self.own.load(Ordering::Relaxed).max(self.restored.load(Ordering::Relaxed))
    }

    /// Keeps entries for at least `window` ticks from now on.
    pub(super) fn keep(&self, window: u64) {
        self.own.fetch_max(window, Ordering::Relaxed);
    }

    pub(super) fn windows(&self) -> KeptWindows {
        KeptWindows {
            own: self.own.load(Ordering::Relaxed),
            restored: self.restored.load(Ordering::Relaxed),
            until: self.until.load(Ordering::Relaxed),
        }
    }

    /// Keeps entries for the windows of a snapshot that was written at `saved_at`, because its
    /// tiers may not have been created yet. Called before the store is used.
    pub(super) fn restore(&self, windows: KeptWindows, saved_at: u64) {
        let KeptWindows { own, until, .. } = windows;
        // A counter counts units for up to two windows.
        self.until.store(until.max(saved_at + 2 * own), Ordering::Relaxed);
        self.restored.store(windows.longest(), Ordering::Relaxed);
    }

    /// Stops using the windows of the restored snapshot when nothing in it counts any more.
    pub(super) fn expire(&self, now: u64) {
        if self.restored.load(Ordering::Relaxed) > 0 && self.until.load(Ordering::Relaxed) <= now {
            self.restored.store(0, Ordering::Relaxed);
        }
    }
}
