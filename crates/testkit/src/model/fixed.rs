//! One aligned window.

use super::entries::Entries;
use super::{Model, TickQuota};

/// Counts what falls into the present window and forgets all of it at its end.
#[derive(Debug, Clone, Default)]
pub struct FixedModel(Entries);

impl Model for FixedModel {
    fn counted(&self, _place: usize, quota: TickQuota, now: u64) -> u128 {
        self.0.sum(|at| at / quota.window == now / quota.window)
    }

    fn record(&mut self, _quotas: &[TickQuota], at: u64, units: u64) {
        self.0.add(at, units);
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        let same = |quota: &TickQuota| at / quota.window == now / quota.window;
        if quotas.iter().any(same) { self.0.take(at, units) } else { 0 }
    }
}
