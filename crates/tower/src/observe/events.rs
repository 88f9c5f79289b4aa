//! Denials as events of `tracing`, so many a second at most.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{Guarded, Judgement};

/// Lets so many events through in a second and counts the others: a flood of requests must not
/// become a flood of lines.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// The second, in the upper half, and how many there were in it.
    second: AtomicU64,
    suppressed: AtomicU64,
}

const A_SECOND: u64 = 10;

impl Events {
    /// Tells of a request that was turned away or would have been. `now` is in nanoseconds.
    pub(crate) fn judged(&self, judgement: &Judgement<'_>, now: u64) {
        let Some(suppressed) = self.admit(now) else { return };
        let (policy, outcome) = (judgement.policy, judgement.happened.as_str());
        let (mode, degraded) = (judgement.enforcement.as_str(), judgement.degraded);
        match judgement.happened {
            super::Happened::NoPeer => tracing::error!(
                target: "slidegate", policy, outcome, mode, suppressed, "{}", crate::peer::UNKNOWN
            ),
            super::Happened::StoreFailed => tracing::warn!(
                target: "slidegate", policy, outcome, mode, degraded, suppressed, "limits cannot be judged"
            ),
            _ => tracing::info!(
                target: "slidegate", policy, outcome, mode, degraded, suppressed, "request over its limit"
            ),
        }
    }

    /// Tells of a request that a guard sent away.
    pub(crate) fn guarded(&self, guarded: &Guarded<'_>, now: u64) {
        if let Some(suppressed) = self.admit(now) {
            tracing::warn!(target: "slidegate", guard = guarded.guard, suppressed, "request shed");
        }
    }

    /// How many were left out since the last that was told; nothing if this one is left out too.
    fn admit(&self, now: u64) -> Option<u64> {
        let second = (now / 1_000_000_000) << 32;
        let before = self.second.fetch_max(second, Ordering::Relaxed).max(second);
        // Several threads may be at the same number: a line more or less does no harm.
        if before & u64::from(u32::MAX) >= A_SECOND {
            self.suppressed.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        self.second.fetch_add(1, Ordering::Relaxed);
        Some(self.suppressed.swap(0, Ordering::Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_is_ten_lines_a_second_and_a_count() {
        let events = Events::default();
        let second = 1_700_000_000_000_000_000;
        let told = |now: u64| (0..1000).filter(|_| events.admit(now).is_some()).count();
        assert_eq!(told(second), 10);
        assert_eq!(told(second + 999_999_999), 0);
        assert_eq!(events.admit(second + 1_000_000_000), Some(1990));
        assert_eq!(told(second + 1_000_000_000), 9);
        // A clock that goes back brings no new lines.
        assert_eq!(told(second), 0);
    }
}
