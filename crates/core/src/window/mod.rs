//! Algorithms as pure state machines: state, time and cost make a decision. They have no locks,
//! keys or clocks.
//!
//! A new algorithm is one new file here that implements [`Window`].

mod counter;
mod fixed;
mod gcra;
mod limits;
mod log;
mod per_quota;
mod place;
mod segments;
mod stamp;

pub(crate) use counter::Counter;
pub(crate) use fixed::Fixed;
pub(crate) use gcra::Gcra;
pub(crate) use limits::{Limits, TickQuota};
pub(crate) use log::Log;
pub(crate) use per_quota::PerQuota;
pub(crate) use place::Place;
pub(crate) use segments::Segments;

use crate::account::Account;
use crate::error::Error;
use crate::time::Moment;

/// The latest tick that a window stores.
const TICK_MAX: u64 = u64::MAX >> 17;

/// A wait that never ends.
pub(crate) const NEVER: u64 = u64::MAX;

/// The status of a quota after a check, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct QuotaStatus {
    pub(crate) used: u64,
    /// Zero if allowed.
    pub(crate) retry: u64,
    pub(crate) reset: u64,
    /// The tick for a receipt, if allowed.
    pub(crate) tick: u64,
}

/// The units that [`Window::kept_units`] returns, in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeptSince {
    /// The earliest date of a unit.
    pub(crate) oldest: u64,
    pub(crate) now: u64,
}

/// The context for decoding a window from a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeContext<'a> {
    pub(crate) limits: &'a Limits,
    /// The epoch of the window. Receipts of another one are void.
    pub(crate) epoch: u16,
    pub(crate) account: &'a Account,
}

/// The state of one key for one algorithm.
///
/// Every operation calls `advance` first, and the readers below rely on it. The time never
/// decreases, because the store clamps it.
///
/// The default value is the content of an empty slot of the table. It has no heap memory and is
/// never used.
pub(crate) trait Window: Default + Send {
    /// Creates an empty window. Receipts of another epoch are void.
    fn new(limits: &Limits, epoch: u16) -> Self;

    fn epoch(&self) -> u16;

    /// Sets the epoch. Only algorithms that change it when they [`advance`](Window::advance) need this.
    fn set_epoch(&mut self, _: u16) {}

    /// Returns `true` if the units were recorded under another window than that of quota `index`, and
    /// reading them under it changes how they are stored. [`advance`](Window::advance) makes the
    /// change. An operation that records nothing must make it in a copy.
    #[inline]
    fn is_foreign(&self, limits: &Limits, index: usize) -> bool {
        let _ = (limits, index);
        false
    }

    /// Drops expired entries, and applies a changed window.
    ///
    /// How a changed window dates the units depends only on what is recorded, never on `now`.
    /// Otherwise every look would date them again, and denied requests would extend a denial.
    fn advance(&mut self, limits: &Limits, now: u64, account: &Account);

    /// Returns the units that count against quota `index`.
    fn used(&self, limits: &Limits, index: usize, now: u64) -> u64;

    /// Returns at least the recorded units that are dated at `since.oldest` or later, whatever quotas
    /// they were taken under. `limits` are those of the policy. The window need not be advanced.
    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64;

    /// Returns the ticks until quota `index` allows `cost`: zero if it does now, [`NEVER`] if it
    /// never will.
    fn retry(&self, limits: &Limits, index: usize, now: u64, cost: u64) -> u64;

    /// Returns the ticks until more units become available in quota `index`, or zero if all are.
    fn reset(&self, limits: &Limits, index: usize, now: u64) -> u64;

    /// Decides with the only quota, and takes the units if allowed: `advance`, `retry`, `take`,
    /// `used` and `reset` in one, which an algorithm may do in fewer steps.
    #[inline]
    fn check(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> QuotaStatus {
        self.advance(limits, moment.now, account);
        let retry = self.retry(limits, 0, moment.now, cost);
        let tick = if retry == 0 { self.take(limits, moment, cost, account) } else { 0 };
        let used = self.used(limits, 0, moment.now);
        QuotaStatus { used, retry, reset: self.reset(limits, 0, moment.now), tick }
    }

    /// Does the same as [`check`](Window::check) in the usual case, without a function call.
    /// Otherwise returns `None`, and `check` has to be called, in a copy first if the window
    /// [`is_foreign`](Window::is_foreign).
    #[inline]
    fn check_fast(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> Option<QuotaStatus> {
        if self.is_foreign(limits, 0) {
            return None;
        }
        Some(self.check(limits, moment, cost, account))
    }

    /// Takes `cost` without a check, and returns the tick for a receipt.
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64;

    /// Records `cost` without a check, above the limit if necessary. Units above the limit take no
    /// memory.
    fn charge(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) {
        self.take(limits, moment, cost, account);
    }

    /// Takes the units that a sketch estimates for a key, by quota, before anything else is taken.
    fn seed(&mut self, limits: &Limits, moment: Moment, units: &[u64], account: &Account) {
        if let Some(units) = units.first().copied().filter(|units| *units > 0) {
            self.take(limits, moment, units, account);
        }
    }

    /// Refunds up to `units` recorded at `tick`. Returns their number: zero if nothing is recorded there.
    /// An algorithm without dates refunds units of the part that it counts `tick` in.
    fn give_back(
        &mut self,
        limits: &Limits,
        now: u64,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64;

    /// Refunds up to `units` without a receipt, the oldest first. Returns their number.
    ///
    /// By default, the units are all of the same age.
    fn forgive(&mut self, limits: &Limits, now: u64, units: u64, account: &Account) -> u64 {
        self.give_back(limits, now, TICK_MAX, units, account)
    }

    /// Removes the recorded units of waiting callers, in the order of the queue. Expired units are
    /// not removed again.
    fn withdraw_all<'a>(
        &mut self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a Place>,
        now: u64,
        account: &Account,
    ) {
        for place in places {
            self.give_back(&limits[place.limits], now, place.tick, place.cost, account);
        }
    }

    /// Records the units of waiting callers: each at the earliest tick that its quotas permit, and
    /// not before the caller in front of it. Requires an algorithm that supports entries in the
    /// future.
    fn place_all<'a>(
        &mut self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a mut Place>,
        moment: Moment,
        account: &Account,
    ) {
        let mut due = moment.now;
        for place in places {
            let limits = &limits[place.limits];
            self.advance(limits, moment.now, account);
            let quotas = 0..limits.quotas().len();
            let retries = quotas.map(|index| self.retry(limits, index, moment.now, place.cost));
            due = due.max(moment.now.saturating_add(retries.max().unwrap_or(NEVER)));
            place.due = due;
            let moment = Moment { now: moment.now, date: due.max(moment.date) };
            place.tick = self.take_ahead(limits, moment, place.cost, account);
        }
    }

    /// Takes units of a waiting caller, recorded at the tick at which it is due. Returns the tick
    /// that [`withdraw_all`](Window::withdraw_all) needs.
    fn take_ahead(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        self.take(limits, moment, cost, account)
    }

    /// Returns the tick from which nothing counts in any window up to `longest`.
    fn idle_at(&self, longest: u64) -> u64;

    /// Returns the bytes on the heap, as the account counts them.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Releases heap memory that is no longer needed.
    fn trim(&mut self, limits: &Limits, account: &Account) {
        let _ = (limits, account);
    }

    /// Returns the recorded units, if the algorithm is a log. Some may have expired.
    fn recorded_units(&self) -> u64 {
        0
    }

    /// Calls `each` with the tick and units of every entry, oldest first. Returns `false` if the
    /// algorithm does not store entries.
    fn history(&self, each: &mut dyn FnMut(u64, u64)) -> bool {
        let _ = each;
        false
    }

    /// Reads the memory that a check will read, so that the cache misses of many checks overlap.
    fn touch(&self) -> u64 {
        u64::from(self.epoch())
    }

    /// Appends the state to a snapshot.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what `encode` wrote.
    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error>;
}
