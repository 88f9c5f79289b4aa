//! `tracing` events of a server, at a bounded rate.

#[cfg(feature = "tracing")]
use core::time::Duration;
#[cfg(feature = "tracing")]
use parking_lot::Mutex;
#[cfg(feature = "tracing")]
use tokio::time::Instant;

use super::failure::Failure;

/// Reports the events of one server, at most one failure per second.
#[derive(Debug, Default)]
pub(super) struct Events {
    #[cfg(feature = "tracing")]
    pace: Mutex<Pace>,
}

#[cfg(feature = "tracing")]
#[derive(Debug, Default)]
struct Pace {
    last: Option<Instant>,
    /// Failures since the last one that was reported.
    suppressed: u64,
    /// Whether the last event was a failure.
    has_failed: bool,
}

#[cfg(feature = "tracing")]
const PAUSE: Duration = Duration::from_secs(1);

#[cfg(feature = "tracing")]
impl Events {
    /// Reports a failure. `what` is its consequence.
    pub(super) fn failed(&self, address: &str, what: &'static str, failure: &Failure) {
        let mut pace = self.pace.lock();
        let now = Instant::now();
        pace.has_failed = true;
        if pace.last.is_some_and(|last| now < last + PAUSE) {
            pace.suppressed += 1;
            return;
        }
        pace.last = Some(now);
        let suppressed = core::mem::take(&mut pace.suppressed);
        drop(pace);
        let reason = failure.reason().name();
        tracing::warn!(target: "slidegate", address, reason, suppressed, "{what}: {failure}");
    }

    /// Reports that a server is connected again after a failure.
    pub(super) fn connected(&self, address: &str) {
        let mut pace = self.pace.lock();
        if core::mem::take(&mut pace.has_failed) {
            pace.last = None;
            drop(pace);
            tracing::info!(target: "slidegate", address, "connected to Redis again");
        }
    }

    /// Reports that Sentinels named another primary.
    pub(super) fn switched(service: &str, from: Option<&str>, to: &str) {
        if let Some(from) = from {
            tracing::info!(target: "slidegate", service, from, to, "Redis has another primary");
        }
    }
}

#[cfg(not(feature = "tracing"))]
#[expect(clippy::unused_self, reason = "the same calls with and without tracing")]
impl Events {
    pub(super) fn failed(&self, _: &str, _: &'static str, _: &Failure) {}

    pub(super) fn connected(&self, _: &str) {}

    pub(super) fn switched(_: &str, _: Option<&str>, _: &str) {}
}
