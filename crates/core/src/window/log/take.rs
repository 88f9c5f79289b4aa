//! Records units.

use super::body::{Body, CAPPED_MAX, FLAT_MAX};
use super::code::Code;
use super::wide::WideLog;
use super::{Log, merge, size};
use crate::account::Account;
use crate::time::Moment;
use crate::window::{Limits, TickQuota};

impl Log {
    /// Puts a unit at the end of the codes in the usual cases: a code of one or two bytes, and room
    /// for it. False, and nothing done, in all others. `first` is the tick of the first entry. Leaves
    /// the sum of units to the caller.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a twentieth of the check")]
    #[expect(clippy::cast_possible_truncation, reason = "a short code is below 2^16")]
    pub(super) fn take_fast(&mut self, first: u64, date: u64) -> bool {
        let Some(gap) = date.checked_sub(first + u64::from(self.span)) else { return false };
        if gap == 0 {
            let open = self.body.open().wrapping_add(1);
            if open != 0 {
                self.body.set_open(open);
            }
            return open != 0;
        }
        let Some(code) = Code::short(gap) else { return false };
        let Some(span) = self.span.checked_add(gap as u32) else { return false };
        if !self.body.push_short(code) {
            return false;
        }
        self.span = span;
        true
    }

    /// Writes the code of the open entry, now that the gap to the next is known; false if the log
    /// needs the wide form.
    #[inline]
    pub(super) fn close(&mut self, date: u64, limits: &Limits, account: &Account) -> bool {
        let Ok(span) = u32::try_from(date - self.head.tick()) else {
            return false;
        };
        let gap = u64::from(span - self.span);
        let code = Code::new(u64::from(self.body.open()), gap);
        if !self.body.push(code.as_slice()) && !self.push_cold(&code, limits, account) {
            return false;
        }
        // Merging may have moved the first entry, never the last.
        #[expect(clippy::cast_possible_truncation, reason = "no more than the span above")]
        let span = (date - self.head.tick()) as u32;
        self.span = span;
        self.body.set_open(0);
        true
    }

    /// Finds room for a code: a larger block, or fewer entries. False if the log has outgrown one
    /// block.
    #[cold]
    fn push_cold(&mut self, code: &Code, limits: &Limits, account: &Account) -> bool {
        let most = match limits.bytes_max {
            0 => FLAT_MAX,
            cap => cap.min(CAPPED_MAX),
        };
        let bytes = code.as_slice();
        if self.body.make_room(bytes.len(), self.likely_bytes(limits), most, account) {
            return self.body.push(bytes);
        }
        if limits.bytes_max == 0 && self.body.len() + bytes.len() > FLAT_MAX {
            return false;
        }
        self.squeeze(limits);
        // The entry that `code` is for has not moved, and one code always fits.
        self.body.push(bytes)
            || (self.body.make_room(bytes.len(), 0, most, account) && self.body.push(bytes))
    }

    /// The bytes that a window will take at its fullest if it goes on as it began, but no more than
    /// the limit can need; zero while it is too early to know.
    ///
    /// A block that is right at once saves the smaller ones on the way to it, whose holes would
    /// take a fifth of the memory.
    fn likely_bytes(&self, limits: &Limits) -> usize {
        let TickQuota { limit, window } = limits.quota(0);
        let (used, span) = (self.body.len() as u64, u64::from(self.span));
        if span.saturating_mul(64) < window || self.units == 0 {
            return 0;
        }
        let units = u64::from(self.units);
        let by_rate = size::at_rate(used, units, span, window);
        let by_limit = size::at_limit(used, units, limit, window);
        // A key that runs near its limit will need the limit's block: a guess a little below it
        // would be outgrown, and leave the largest hole of all.
        let is_near = by_rate.saturating_mul(4) >= by_limit.saturating_mul(3);
        let bytes = if is_near { by_limit } else { by_rate };
        usize::try_from(bytes).map_or(0, |bytes| bytes.min(FLAT_MAX))
    }

    /// Merges entries until at least half of the room is free.
    #[cold]
    fn squeeze(&mut self, limits: &Limits) {
        let last = self.last();
        let target = self.body.straighten().len() / 2;
        let mut quantum = match limits.bytes_max {
            0 => 2,
            cap => merge::first_quantum(limits.longest(), cap),
        };
        merge::with_scratch(|scratch| {
            while self.body.len() > target.max(7) && quantum <= limits.longest() * 2 {
                let first = self.head.tick();
                let first = merge::merge(self.body.straighten(), first, last, quantum, scratch);
                if scratch.len() < self.body.len() && self.body.replace(scratch) {
                    self.head.set_tick(first);
                    #[expect(clippy::cast_possible_truncation, reason = "shorter than before")]
                    let span = (last - first) as u32;
                    self.span = span;
                }
                quantum *= 2;
            }
        });
        if self.body.len() > target.max(7) {
            self.collapse(last);
        }
    }

    /// The last resort: all but the open units become one entry at the tick of the last.
    fn collapse(&mut self, last: u64) {
        let before = u64::from(self.units) - u64::from(self.body.open());
        self.body.replace(Code::new(before, 0).as_slice());
        self.head.set_tick(last);
        self.span = 0;
    }

    /// Adds to the units of the last entry; false if the log needs the wide form.
    #[inline]
    pub(super) fn add_open(&mut self, cost: u64, limits: &Limits, account: &Account) -> bool {
        let open = u64::from(self.body.open()) + cost;
        match u16::try_from(open) {
            Ok(open) => {
                self.body.set_open(open);
                true
            }
            Err(_) => self.add_open_cold(open, limits, account),
        }
    }

    /// More units than fit in the open entry: all but one become another entry of the same tick.
    #[cold]
    fn add_open_cold(&mut self, open: u64, limits: &Limits, account: &Account) -> bool {
        let code = Code::new(open - 1, 0);
        let pushed = self.body.push(code.as_slice()) || self.push_cold(&code, limits, account);
        if pushed {
            self.body.set_open(1);
        }
        pushed
    }

    #[cold]
    pub(super) fn take_wide(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> u64 {
        self.widen(limits, moment.now, account);
        match &mut self.body {
            Body::Wide(wide) => wide.take(limits, moment, cost, account),
            _ => moment.date,
        }
    }

    /// Turns the log into its wide form.
    #[cold]
    fn widen(&mut self, limits: &Limits, now: u64, account: &Account) {
        if matches!(self.body, Body::Wide(_)) {
            return;
        }
        // Recorded units must not be lost, so this may exceed the budget by some hundred bytes.
        let mut wide = WideLog::new(limits);
        account.grow(wide.heap_bytes());
        if self.units != 0 {
            for (date, units) in self.walk() {
                wide.take(limits, Moment { now, date }, units, account);
            }
        }
        wide.advance(limits, now, account);
        account.shrink(self.body.heap_bytes());
        self.body = Body::Wide(Box::new(wide));
        self.units = 0;
    }
}
