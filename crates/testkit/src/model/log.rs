//! The exact log.

use super::entries::Entries;
use super::{Model, TickQuota};

/// A unit dated `t` counts while `now - window < t`.
#[derive(Debug, Clone, Default)]
pub struct LogModel(Entries);

impl Model for LogModel {
    fn counted(&self, _place: usize, quota: TickQuota, now: u64) -> u128 {
        self.0.sum(|at| counts(quota, now, at))
    }

    fn record(&mut self, _quotas: &[TickQuota], at: u64, units: u64) {
        self.0.add(at, units);
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        if quotas.iter().any(|quota| counts(*quota, now, at)) { self.0.take(at, units) } else { 0 }
    }

    fn events(&self, quotas: &[TickQuota], now: u64) -> Option<Vec<(u64, u64)>> {
        Some(self.0.list(|at| quotas.iter().any(|quota| counts(*quota, now, at))))
    }
}

fn counts(quota: TickQuota, now: u64, at: u64) -> bool {
    i128::from(now) - i128::from(quota.window) < i128::from(at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oracle::SlidingLog;
    use crate::random::Random;

    #[test]
    fn agrees_with_the_oracle() {
        let quota = TickQuota { limit: 9, window: 40 };
        let (mut model, mut oracle) = (LogModel::default(), SlidingLog::new(9, 40));
        let (mut random, mut now) = (Random::new(11), 0);
        for _ in 0..5000 {
            now += random.pick(&[0, 0, 1, 3, 10, 40]);
            let cost = random.between(1, 10);
            let standing = model.standing(0, quota, now, Some(cost));
            assert_eq!(standing.remaining, oracle.remaining(now));
            assert_eq!(standing.retry_after, oracle.retry_after(now, cost));
            assert_eq!(standing.reset_after, oracle.reset_after(now));
            let back = now - random.between(0, now.min(45));
            if random.chance(10) {
                let given = model.give_back(&[quota], now, back, cost);
                assert_eq!(given, oracle.refund(now, back, cost));
            } else if oracle.check(now, cost) {
                model.record(&[quota], now, cost);
            }
        }
    }
}
