//! How long a lock was held, measured where it may be long.

use std::time::{Duration, Instant};

/// A running measurement. Only growth, sweeps, eviction and snapshots are measured: an ordinary
/// check is far shorter than the two clock readings it would cost.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hold(Instant);

impl Hold {
    #[expect(clippy::disallowed_methods, reason = "measures the machine, decides nothing")]
    pub(super) fn start() -> Self {
        Self(Instant::now())
    }

    pub(super) fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}
