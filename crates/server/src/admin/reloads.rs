//! How often the configuration was read again.

use core::sync::atomic::{AtomicU64, Ordering};

/// Reloads by how they ended, whoever asked for them: a signal, a changed file, an admin.
#[derive(Debug, Default)]
pub struct Reloads {
    ok: AtomicU64,
    failed: AtomicU64,
}

impl Reloads {
    /// Notes how one ended.
    pub fn note(&self, is_ok: bool) {
        let count = if is_ok { &self.ok } else { &self.failed };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Those that put another configuration in force.
    pub fn ok(&self) -> u64 {
        self.ok.load(Ordering::Relaxed)
    }

    /// Those that changed nothing, because something was wrong.
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }
}
