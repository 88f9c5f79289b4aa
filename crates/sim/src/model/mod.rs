//! Simple models of every algorithm, written from their definitions.
//!
//! They share no code with the code under test: all but one store every admission in a list and
//! count the list again for every operation. No waiting time comes from a formula: each is found by
//! trying later and later times.

mod gcra;
mod list;

use core::fmt;

pub use gcra::GcraModel;
pub use list::{Counting, ListModel};

/// A quota with its window in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickQuota {
    /// Units allowed in a window.
    pub limit: u64,
    /// Length of the window.
    pub window: u64,
}

/// The status of one quota of a model, with times in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickStatus {
    /// Units left.
    pub remaining: u64,
    /// Ticks until the cost would be allowed: zero if it is, `None` for never.
    pub retry_after: Option<u64>,
    /// Ticks until fewer units count, or zero if none does.
    pub reset_after: u64,
}

/// The state of one key: a pure state machine over ticks.
///
/// `place` is the position of a quota in its policy. Models that store a list of admissions do not
/// need it.
pub trait Model: fmt::Debug {
    /// Returns the units of a quota that count at `now`.
    fn counted(&self, place: usize, quota: TickQuota, now: u64) -> u128;

    /// Returns `true` if `cost` more units fit into a quota at `now`.
    fn fits(&self, place: usize, quota: TickQuota, now: u64, cost: u64) -> bool {
        self.counted(place, quota, now) + u128::from(cost) <= u128::from(quota.limit)
    }

    /// Records `units` at `at`, whether they fit or not.
    fn record(&mut self, quotas: &[TickQuota], at: u64, units: u64);

    /// Records units without a check, at `at`. In a log whose longest quota is used up without the
    /// newest entry, they join that entry at the later tick.
    fn charge(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) {
        let _ = now;
        self.record(quotas, at, units);
    }

    /// Refunds up to `units` recorded at `at` if they still count at `now`. Returns their number.
    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64;

    /// Returns `true` if the state is that of a new key although it was used, so that earlier
    /// receipts are void. Models that refund by date do not need it.
    fn is_as_new(&self, _quotas: &[TickQuota], _now: u64) -> bool {
        false
    }

    /// Returns the entries that count at `now`, oldest first, as tick and units, or `None` if the
    /// model does not store admissions.
    fn events(&self, _quotas: &[TickQuota], _now: u64) -> Option<Vec<(u64, u64)>> {
        None
    }

    /// Returns the status of a quota at `now` for a request of `cost`, or `None` for a request that
    /// has just been recorded.
    fn standing(&self, place: usize, quota: TickQuota, now: u64, cost: Option<u64>) -> TickStatus {
        let counted = self.counted(place, quota, now);
        let remaining = u128::from(quota.limit).saturating_sub(counted);
        let retry_after = match cost {
            None => Some(0),
            Some(cost) if cost > quota.limit => None,
            Some(cost) => Some(first_tick(now, |tick| self.fits(place, quota, tick, cost))),
        };
        let reset_after = match counted {
            0 => 0,
            _ => first_tick(now, |tick| self.counted(place, quota, tick) < counted),
        };
        TickStatus {
            remaining: u64::try_from(remaining).unwrap_or(u64::MAX),
            retry_after,
            reset_after,
        }
    }
}

/// Returns the ticks from `now` until `holds` is first true, for a condition that stays true.
///
/// Tries 1, 2, 4, 8 ticks ahead until it holds and then bisects the last step. Gives up after 2^62
/// ticks, which is longer than any result can be.
fn first_tick(now: u64, holds: impl Fn(u64) -> bool) -> u64 {
    if holds(now) {
        return 0;
    }
    let mut too_early = 0;
    let mut late_enough = 1;
    while !holds(now.saturating_add(late_enough)) {
        if late_enough >= 1 << 62 {
            return u64::MAX;
        }
        too_early = late_enough;
        late_enough *= 2;
    }
    while late_enough - too_early > 1 {
        let middle = too_early + (late_enough - too_early) / 2;
        if holds(now.saturating_add(middle)) {
            late_enough = middle;
        } else {
            too_early = middle;
        }
    }
    late_enough
}

#[cfg(test)]
mod tests {
    use super::first_tick;

    #[test]
    fn finds_what_stepping_tick_by_tick_finds() {
        for wanted in 100..400 {
            assert_eq!(first_tick(100, |tick| tick >= wanted), wanted - 100);
        }
    }

    #[test]
    fn gives_up_if_it_never_holds() {
        assert_eq!(first_tick(100, |_| false), u64::MAX);
    }
}
