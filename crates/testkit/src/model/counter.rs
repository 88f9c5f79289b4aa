//! Two aligned windows, the previous one weighted.

use super::entries::Entries;
use super::{Model, TickQuota};

/// The present window counts whole; the one before by how much of it a sliding window still
/// covers, rounded up.
#[derive(Debug, Clone, Default)]
pub struct CounterModel(Entries);

impl Model for CounterModel {
    fn counted(&self, _place: usize, quota: TickQuota, now: u64) -> u128 {
        let present = self.0.sum(|at| age(quota, now, at) == Some(0));
        let previous = self.0.sum(|at| age(quota, now, at) == Some(1));
        let covered = u128::from(quota.window - now % quota.window);
        present + (previous * covered).div_ceil(u128::from(quota.window))
    }

    fn record(&mut self, _quotas: &[TickQuota], at: u64, units: u64) {
        self.0.add(at, units);
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        let known = |quota: &TickQuota| age(*quota, now, at).is_some_and(|age| age <= 1);
        if quotas.iter().any(known) { self.0.take(at, units) } else { 0 }
    }
}

/// How many windows ago `at` was; `None` for the future.
fn age(quota: TickQuota, now: u64, at: u64) -> Option<u64> {
    (now / quota.window).checked_sub(at / quota.window)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worked_example_of_the_design() {
        let hour = TickQuota { limit: 100, window: 60 * 60_000 };
        let mut model = CounterModel::default();
        model.record(&[hour], 1, 70);
        model.record(&[hour], hour.window, 40);
        // 37.5 of 60 minutes have elapsed: 40 + 70 * 22.5 / 60 = 66.25.
        let now = hour.window + 37 * 60_000 + 30_000;
        assert_eq!(model.counted(0, hour, now), 67);
    }
}
