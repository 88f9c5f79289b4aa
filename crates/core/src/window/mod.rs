//! Pure state machines: state, now and cost make a decision. No lock, no key, no clock.
//!
//! A new algorithm is one new file here that implements [`Window`].

mod counter;
mod fixed;
mod gcra;
mod limits;
mod log;
mod many;
mod place;
mod segments;
mod stamp;

pub(crate) use counter::Counter;
pub(crate) use fixed::Fixed;
pub(crate) use gcra::Gcra;
pub(crate) use limits::{Limits, TickQuota};
pub(crate) use log::Log;
pub(crate) use many::Many;
pub(crate) use place::Place;
pub(crate) use segments::Segments;

use crate::account::Account;
use crate::error::Error;
use crate::time::Moment;

/// The wait that never ends.
pub(crate) const NEVER: u64 = u64::MAX;

/// Where a quota stands after a check, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Standing {
    pub(crate) used: u64,
    /// Zero if it passed.
    pub(crate) retry: u64,
    pub(crate) reset: u64,
    /// What a receipt should name, if it passed.
    pub(crate) tick: u64,
}

/// How a window is read from a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DecodeContext<'a> {
    pub(crate) limits: &'a Limits,
    /// The epoch of the window: receipts of another one are void.
    pub(crate) epoch: u16,
    pub(crate) account: &'a Account,
}

/// What one key has taken, under one algorithm.
///
/// `advance` comes first in every operation; the readers below it rely on it. Time given to a
/// window never decreases: the store clamps it.
///
/// The default is what an empty slot of the table holds. It has no heap memory and is never used.
pub(crate) trait Window: Default + Send {
    /// Nothing taken. Receipts of another epoch are not honored.
    fn new(limits: &Limits, epoch: u16) -> Self;

    fn epoch(&self) -> u16;

    /// Drops what no longer counts, and follows a change of the limits.
    fn advance(&mut self, limits: &Limits, now: u64, account: &Account);

    /// Units that count against quota `index`.
    fn used(&self, limits: &Limits, index: usize, now: u64) -> u64;

    /// Units that may still count against quota `index` under any window: at least [`used`].
    ///
    /// [`used`]: Window::used
    fn on_record(&self, limits: &Limits, index: usize, now: u64) -> u64 {
        self.used(limits, index, now)
    }

    /// Ticks until `cost` passes quota `index`: zero if it does now, [`NEVER`] if it never will.
    fn retry(&self, limits: &Limits, index: usize, now: u64, cost: u64) -> u64;

    /// Ticks until more units become available in quota `index`; zero if all are.
    fn reset(&self, limits: &Limits, index: usize, now: u64) -> u64;

    /// Decides under the only quota, and takes if it passes: `advance`, `retry`, `take`, `used`
    /// and `reset` in one, which an algorithm may do in fewer steps.
    #[inline]
    fn check(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> Standing {
        self.advance(limits, moment.now, account);
        let retry = self.retry(limits, 0, moment.now, cost);
        let tick = if retry == 0 { self.take(limits, moment, cost, account) } else { 0 };
        let used = self.used(limits, 0, moment.now);
        Standing { used, retry, reset: self.reset(limits, 0, moment.now), tick }
    }

    /// Does what [`check`](Window::check) does, in the usual case. Returns `None` in all others: then
    /// `check` has to be called. An algorithm that implements this needs no function call for it.
    #[inline]
    fn check_fast(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> Option<Standing> {
        Some(self.check(limits, moment, cost, account))
    }

    /// Takes `cost` without asking, and says which tick a receipt should name.
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64;

    /// Takes what a sketch remembers of a key, by quota, before anything else is taken.
    fn seed(&mut self, limits: &Limits, moment: Moment, units: &[u64], account: &Account) {
        if let Some(units) = units.first().copied().filter(|units| *units > 0) {
            self.take(limits, moment, units, account);
        }
    }

    /// Gives back exactly the units dated `tick`. Returns how many there were.
    fn give_back(
        &mut self,
        limits: &Limits,
        now: u64,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64;

    /// Removes the recorded units of callers that wait in line, in the order of the line. Units
    /// that have expired are not removed again.
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

    /// Records the units of callers that wait in line: each at the earliest tick that its quotas
    /// permit, and not before the caller in front of it. Requires an algorithm whose units can be
    /// dated ahead.
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

    /// Takes units of a caller that waits in line, dated at the tick at which it is due. Returns
    /// the tick that [`withdraw_all`](Window::withdraw_all) needs.
    fn take_ahead(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        self.take(limits, moment, cost, account)
    }

    /// The tick from which on nothing counts in any window up to `longest`.
    fn idle_at(&self, longest: u64) -> u64;

    /// Bytes on the heap, as the account counts them.
    fn heap_bytes(&self) -> usize {
        0
    }

    /// Gives heap memory back that is not needed any more.
    fn trim(&mut self, limits: &Limits, account: &Account) {
        let _ = (limits, account);
    }

    /// Returns the units on record, if the algorithm is a log. Some may have expired.
    fn recorded_units(&self) -> u64 {
        0
    }

    /// Calls `each` with the tick and units of every entry, oldest first; false if the algorithm
    /// keeps none.
    fn history(&self, each: &mut dyn FnMut(u64, u64)) -> bool {
        let _ = each;
        false
    }

    /// Reads what a check will read, so that the memory of many checks comes at once.
    fn touch(&self) -> u64 {
        u64::from(self.epoch())
    }

    /// Appends the state to a snapshot.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads what `encode` wrote.
    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error>;
}
