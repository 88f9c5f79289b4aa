//! Sub-windows, each counted whole.

use super::entries::Entries;
use super::{Model, TickQuota};

/// A window is cut into `count` segments aligned to the epoch; a segment counts whole until its
/// last tick has left the window.
#[derive(Debug, Clone)]
pub struct SegmentsModel {
    count: u64,
    entries: Entries,
}

impl SegmentsModel {
    /// An empty model of `count` segments a window.
    pub fn new(count: u64) -> Self {
        Self { count, entries: Entries::default() }
    }

    fn counts(&self, quota: TickQuota, now: u64, at: u64) -> bool {
        let length = quota.window.div_ceil(self.count);
        let last_tick = (at / length + 1) * length - 1;
        i128::from(now) - i128::from(quota.window) < i128::from(last_tick)
    }
}

impl Model for SegmentsModel {
    fn counted(&self, _place: usize, quota: TickQuota, now: u64) -> u128 {
        self.entries.sum(|at| self.counts(quota, now, at))
    }

    fn record(&mut self, _quotas: &[TickQuota], at: u64, units: u64) {
        self.entries.add(at, units);
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        if quotas.iter().any(|quota| self.counts(*quota, now, at)) {
            self.entries.take(at, units)
        } else {
            0
        }
    }
}
