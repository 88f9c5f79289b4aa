//! Denials as `tracing` events, at a bounded rate.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Clock, MonotonicClock};

use crate::observe::{GateOutcome, GuardEvent, Observation, Observer};

/// Emits a `tracing` event for requests that were rejected or would have been.
///
/// At most ten events per second are emitted and the others are counted, so a flood of requests
/// does not flood the log.
pub struct TraceEvents {
    clock: Arc<dyn Clock>,
    /// The second in the upper half, and the number of its events in the lower half.
    second: AtomicU64,
    suppressed: AtomicU64,
}

const PER_SECOND: u64 = 10;

impl TraceEvents {
    /// Limits events by the monotonic clock.
    pub fn new() -> Self {
        Self::with_clock(Arc::new(MonotonicClock::precise()))
    }

    /// Limits events by `clock`.
    pub fn with_clock(clock: Arc<dyn Clock>) -> Self {
        let (second, suppressed) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { clock, second, suppressed }
    }

    /// Returns the number of events suppressed since the last one that was emitted, or `None` if this
    /// event is suppressed too.
    fn admit(&self) -> Option<u64> {
        let second = Duration::from_nanos(self.clock.now()).as_secs() << 32;
        let before = self.second.fetch_max(second, Ordering::Relaxed).max(second);
        // Several threads may read the same number, which at worst adds an event.
        if before & u64::from(u32::MAX) >= PER_SECOND {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.second.fetch_add(1, Ordering::Relaxed);
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }
}

impl Default for TraceEvents {
    fn default() -> Self {
        Self::new()
    }
}

impl core::fmt::Debug for TraceEvents {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("TraceEvents(..)")
    }
}

impl Observer for TraceEvents {
    fn decided(&self, observation: &Observation<'_>) {
        let outcome = observation.outcome;
        if matches!(outcome, GateOutcome::Allowed | GateOutcome::DeniedByOther | GateOutcome::Off) {
            return;
        }
        let Some(suppressed) = self.admit() else { return };
        let (policy, mode) = (observation.gate.name(), observation.gate.mode());
        let degraded = observation.is_degraded;
        match outcome {
            GateOutcome::NoPeer => tracing::error!(
                target: "slidegate", policy, outcome = outcome.name(), mode, suppressed,
                "the server does not pass on peer addresses"
            ),
            GateOutcome::StoreFailed => tracing::warn!(
                target: "slidegate", policy, outcome = outcome.name(), mode, degraded, suppressed,
                "store failed"
            ),
            _ => tracing::info!(
                target: "slidegate", policy, outcome = outcome.name(), mode, degraded, suppressed,
                "request over its limit"
            ),
        }
    }

    fn guarded(&self, event: &GuardEvent<'_>) {
        if event.is_shed
            && let Some(suppressed) = self.admit()
        {
            tracing::warn!(target: "slidegate", guard = event.guard, suppressed, "request shed");
        }
    }
}

#[cfg(test)]
mod tests;
