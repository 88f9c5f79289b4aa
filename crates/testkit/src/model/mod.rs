//! Naive models of every algorithm, written from what they promise.
//!
//! None of them shares a line or an idea with the code under test: most keep every admission in
//! a list and count it anew on every question, and no waiting time comes from a formula. Each is
//! found by asking again and again, later and later.

mod counter;
mod entries;
mod fixed;
mod gcra;
mod log;
mod search;
mod segments;

use core::fmt;

pub use counter::CounterModel;
pub use fixed::FixedModel;
pub use gcra::GcraModel;
pub use log::LogModel;
pub use segments::SegmentsModel;

use search::first_tick;

/// A quota with its window in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickQuota {
    /// Units allowed in a window.
    pub limit: u64,
    /// Length of the window.
    pub window: u64,
}

/// Where one quota of a model stands, with times in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickStanding {
    /// Units left.
    pub remaining: u64,
    /// Ticks until the cost would pass: zero when it does, `None` for never.
    pub retry_after: Option<u64>,
    /// Ticks until fewer units count; zero when none does.
    pub reset_after: u64,
}

/// What is known about one key: a pure state machine over ticks.
///
/// `place` is the position of a quota in its policy. Models that keep a list of admissions do not
/// need it.
pub trait Model: fmt::Debug {
    /// Units of a quota that count at `now`.
    fn counted(&self, place: usize, quota: TickQuota, now: u64) -> u128;

    /// Whether `cost` more units fit into a quota at `now`.
    fn fits(&self, place: usize, quota: TickQuota, now: u64, cost: u64) -> bool {
        self.counted(place, quota, now) + u128::from(cost) <= u128::from(quota.limit)
    }

    /// Writes down `units` dated `at`, whether they fit or not.
    fn record(&mut self, quotas: &[TickQuota], at: u64, units: u64);

    /// Gives back up to `units` dated `at` if they still count at `now`, and says how many.
    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64;

    /// Whether the state is that of a new key although it was used, so that receipts from before are
    /// void. Where give-backs go by date this needs no saying.
    fn is_as_new(&self, _quotas: &[TickQuota], _now: u64) -> bool {
        false
    }

    /// What counts at `now`, oldest first, as tick and units; `None` if single admissions are not
    /// known.
    fn events(&self, _quotas: &[TickQuota], _now: u64) -> Option<Vec<(u64, u64)>> {
        None
    }

    /// Where a quota stands at `now` for somebody who asks for `cost`, or `None` for somebody
    /// whose cost was just recorded.
    fn standing(
        &self,
        place: usize,
        quota: TickQuota,
        now: u64,
        cost: Option<u64>,
    ) -> TickStanding {
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
        TickStanding {
            remaining: u64::try_from(remaining).unwrap_or(u64::MAX),
            retry_after,
            reset_after,
        }
    }
}
