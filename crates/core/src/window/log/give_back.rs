//! Taking units off the record again, and moving those that waited in line.

use super::Log;
use super::body::{Body, CAPPED_MAX};
use super::code::{Code, Entry};
use crate::account::Account;
use crate::time::Moment;
use crate::window::{Limits, TickQuota, Window};

impl Log {
    pub(super) fn give_back_flat(&mut self, tick: u64, units: u64, account: &Account) -> u64 {
        if self.units == 0 || tick > self.last() {
            return 0;
        }
        let mut left = units;
        while left > 0 {
            let Some(given) = self.give_back_once(tick, left, account) else {
                break;
            };
            left -= given;
        }
        units - left
    }

    /// Gives back up to `units` from the first entry at or after `tick` that has any. A merged
    /// entry is dated later than what went into it, so "at or after" finds it.
    fn give_back_once(&mut self, tick: u64, units: u64, account: &Account) -> Option<u64> {
        self.body.straighten();
        let (mut at, mut before, mut here) = (0, None, self.head.tick());
        for entry in self.body.codes() {
            if here >= tick && entry.units > 0 {
                let given = entry.units.min(units);
                if !self.reduce(at, entry, before, given, account) {
                    return None;
                }
                #[expect(clippy::cast_possible_truncation, reason = "a part of the sum")]
                let given_units = given as u32;
                self.units -= given_units;
                return Some(given);
            }
            before = Some((at, entry));
            here += entry.gap;
            at += entry.len;
        }
        let given = u64::from(self.body.open()).min(units);
        if given == 0 {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "at most what is open")]
        let given_units = given as u16;
        self.body.set_open(self.body.open() - given_units);
        self.units -= u32::from(given_units);
        if self.body.open() == 0 {
            self.reopen(before);
        }
        Some(given)
    }

    /// Takes `given` units off the entry at byte `at`; an entry of no units goes. False if there
    /// is no memory left for a gap that takes a byte more.
    fn reduce(
        &mut self,
        at: usize,
        entry: Entry,
        before: Option<(usize, Entry)>,
        given: u64,
        account: &Account,
    ) -> bool {
        if entry.units > given {
            let code = Code::new(entry.units - given, entry.gap);
            return self.body.splice(at, entry.len, code.as_slice());
        }
        let Some((from, previous)) = before else {
            // The first entry: the log now starts at the second.
            #[expect(clippy::cast_possible_truncation, reason = "a part of the span")]
            let gap = entry.gap as u32;
            self.head.set_tick(self.head.tick() + entry.gap);
            self.span -= gap;
            self.body.drop_to(entry.len);
            return true;
        };
        let code = Code::new(previous.units, previous.gap + entry.gap);
        let old = previous.len + entry.len;
        if self.body.splice(from, old, code.as_slice()) {
            return true;
        }
        let more = code.as_slice().len() - old;
        self.body.make_room(more, 0, CAPPED_MAX, account)
            && self.body.splice(from, old, code.as_slice())
    }

    /// The last entry has no units left: the one before it becomes the open one again.
    fn reopen(&mut self, before: Option<(usize, Entry)>) {
        if self.units == 0 {
            self.body.clear();
            return;
        }
        let Some((at, entry)) = before else { return };
        if let Ok(open) = u16::try_from(entry.units) {
            self.body.splice(at, entry.len, &[]);
            self.body.set_open(open);
            #[expect(clippy::cast_possible_truncation, reason = "a part of the span")]
            let gap = entry.gap as u32;
            self.span -= gap;
        }
    }

    /// Ticks until `units` dated `tick`, which wait in line, may be used under one quota.
    ///
    /// Everything dated up to now counts beside them, also what stood behind them in line and has
    /// had its turn meanwhile; what is dated later waits behind them.
    pub(super) fn line(&self, quota: &TickQuota, moment: Moment, tick: u64, units: u64) -> u64 {
        let Moment { now, date } = moment;
        let counts = |at: u64| at + quota.window > now;
        let mut others = 0u64;
        self.history(&mut |at, units| {
            if at <= date.max(tick) && counts(at) {
                others = others.saturating_add(units);
            }
        });
        let own = if counts(tick) { units } else { 0 };
        let wanted = others.saturating_sub(own).saturating_add(units);
        let mut over = wanted.saturating_sub(quota.limit);
        let mut wait = tick.saturating_sub(now);
        self.history(&mut |at, units| {
            if counts(at) && over > 0 {
                wait = wait.max(at + quota.window - now);
                over = over.saturating_sub(units);
            }
        });
        wait
    }

    /// Dates units that waited in line at the moment's date, and leaves every other entry where
    /// it is. Units whose place has expired are recorded again.
    pub(super) fn redate(
        &mut self,
        limits: &Limits,
        moment: Moment,
        tick: u64,
        units: u64,
        account: &Account,
    ) {
        let mut tail = self.split_off(tick, account);
        let mut left = if tick + limits.longest() > moment.now { units } else { 0 };
        for (_, there) in &mut tail {
            let some = (*there).min(left);
            *there -= some;
            left -= some;
        }
        let at = tail.partition_point(|(tick, _)| *tick <= moment.date);
        tail.insert(at, (moment.date, units));
        self.append(tail, limits, moment.now, account);
    }

    /// Puts units on record before some that are dated ahead, because they wait in line.
    #[cold]
    pub(super) fn insert(
        &mut self,
        limits: &Limits,
        moment: Moment,
        units: u64,
        account: &Account,
    ) -> u64 {
        let mut tail = self.split_off(moment.date + 1, account);
        tail.insert(0, (moment.date, units));
        self.append(tail, limits, moment.now, account);
        moment.date
    }

    fn append(&mut self, tail: Vec<(u64, u64)>, limits: &Limits, now: u64, account: &Account) {
        for (date, units) in tail.into_iter().filter(|(_, units)| *units > 0) {
            // Where a byte was missing an entry may have stayed; then these join it.
            let date = date.max(self.end());
            self.take(limits, Moment { now, date }, units, account);
        }
    }

    /// Removes and returns all entries at or after `tick`.
    fn split_off(&mut self, tick: u64, account: &Account) -> Vec<(u64, u64)> {
        if let Body::Wide(wide) = &mut self.body {
            return wide.split_off(tick, account);
        }
        let tail: Vec<_> = self.walk().filter(|(at, _)| *at >= tick).collect();
        for (at, units) in tail.iter().rev() {
            self.give_back_flat(*at, *units, account);
        }
        tail
    }
}
