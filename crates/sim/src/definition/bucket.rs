//! The bucket of the generic cell rate algorithm.

use super::{TickQuota, saturated};

/// A bucket is empty `ticks` after the epoch and the time in which `parts` leak. One unit has as many
/// parts as its window has ticks, so that every tick leaks `limit` whole parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Bucket {
    pub(super) ticks: u64,
    pub(super) parts: u128,
}

impl Bucket {
    /// Returns the content at `now`. Under another limit, parts leak at another rate: what would take more than a
    /// tick then is rounded to a tick, and whole ticks stay.
    pub(super) fn parts(mut self, quota: TickQuota, now: u64) -> u128 {
        if self.parts >= rate(quota) {
            self = Self { ticks: self.ticks + 1, parts: 0 };
        }
        match self.ticks.checked_sub(now) {
            Some(left) => u128::from(left) * rate(quota) + self.parts,
            None => {
                let leaked = u128::from(now - self.ticks) * rate(quota);
                self.parts.saturating_sub(leaked)
            }
        }
    }

    fn set(&mut self, quota: TickQuota, now: u64, parts: u128) {
        let ticks = saturated(parts / rate(quota));
        *self = Self { ticks: now.saturating_add(ticks), parts: parts % rate(quota) };
    }

    pub(super) fn fill(&mut self, quota: TickQuota, now: u64, units: u64) {
        let more = u128::from(units) * u128::from(quota.window);
        self.set(quota, now, self.parts(quota, now) + more);
    }

    /// Takes out units that were filled in at `at`, without what has leaked since. Returns their number,
    /// rounded up.
    pub(super) fn take_out(&mut self, quota: TickQuota, now: u64, at: u64, units: u64) -> u64 {
        let unit = u128::from(quota.window);
        let leaked = u128::from(now.saturating_sub(at)) * rate(quota);
        let parts = self.parts(quota, now);
        let less = (u128::from(units) * unit).saturating_sub(leaked).min(parts);
        self.set(quota, now, parts - less);
        saturated(less.div_ceil(unit))
    }
}

/// The units that leak per window. With a limit of zero, the bucket still empties, at one unit per window.
fn rate(quota: TickQuota) -> u128 {
    u128::from(quota.limit.max(1))
}
