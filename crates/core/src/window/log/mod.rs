//! The exact log: every unit in the window, in about one byte per request.
//!
//! The state is the tick of the first entry, the span to the last one, the recorded units, and a
//! sequence of byte codes (see `code.rs`). Memory depends on the entries in the window, not on the
//! limit. Up to twenty bytes of codes are in the slot itself, more in one block that grows and
//! shrinks by a sixteenth. A log with more than 16 KiB, 2^32 units or 2^32 ticks, or with several
//! quotas, has chunks with partial sums (see `wide.rs`).
//!
//! The log is exact: it never admits too many or too few. If a byte cap or the memory budget does
//! not let it grow, neighboring entries are merged into one at the later tick (see `merge.rs`). This
//! may deny early and never over-admits.

mod body;
mod code;
mod codes;
mod cursor;
mod debt;
mod give_back;
mod merge;
mod size;
mod take;
mod waiters;
mod wide;

use self::body::Body;
use self::code::{Code, read};
use self::wide::WideLog;
use super::stamp::Stamp;
use super::{DecodeContext, KeptSince, Limits, NEVER, Place, QuotaStatus, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::error::Error;
use crate::time::Moment;

/// Entries of one key.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// The tick of the first entry, and the epoch.
    head: Stamp,
    /// Ticks from the first entry to the last.
    span: u32,
    /// Recorded units. If zero, the log is empty, or wide: a wide body has its own sum.
    units: u32,
    body: Body,
}

const _: () = assert!(size_of::<Log>() == 40);

/// The units of a wide log that are walked through when its key is evicted.
const WALK_MAX: u64 = 4096;

impl Window for Log {
    #[inline]
    fn new(limits: &Limits, epoch: u16) -> Self {
        let body = if limits.is_single() {
            Body::EMPTY
        } else {
            Body::Wide(Box::new(WideLog::new(limits)))
        };
        Self { head: Stamp::new(0, epoch), span: 0, units: 0, body }
    }

    #[inline]
    fn epoch(&self) -> u16 {
        self.head.rest()
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, now: u64, account: &Account) {
        if self.units != 0 {
            if let Some(overdue) = now.checked_sub(self.head.tick() + limits.longest()) {
                self.expire(overdue);
            }
        } else if let Body::Wide(wide) = &mut self.body {
            wide.advance(limits, now, account);
        }
    }

    #[inline]
    fn used(&self, _: &Limits, index: usize, _: u64) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.used(index),
            _ => u64::from(self.units),
        }
    }

    fn kept_units(&self, _: &Limits, since: KeptSince) -> u64 {
        if self.end() < since.oldest {
            return 0;
        }
        match &self.body {
            // A long walk would hold the lock for long.
            Body::Wide(wide) if wide.recorded_units() > WALK_MAX => wide.recorded_units(),
            _ => {
                let mut kept = 0;
                self.history(&mut |tick, units| {
                    kept += if tick < since.oldest { 0 } else { units }
                });
                kept
            }
        }
    }

    #[inline]
    fn retry(&self, limits: &Limits, index: usize, now: u64, cost: u64) -> u64 {
        let quota = limits.quota(index);
        let wanted = self.used(limits, index, now).saturating_add(cost);
        if wanted <= quota.limit {
            return 0;
        }
        if cost > quota.limit {
            return NEVER;
        }
        let over = wanted - quota.limit;
        let tick = match &self.body {
            Body::Wide(wide) => wide.freeing(index, over),
            _ => self.freeing(over),
        };
        (tick + quota.window).saturating_sub(now)
    }

    #[inline]
    fn reset(&self, limits: &Limits, index: usize, now: u64) -> u64 {
        let window = limits.quota(index).window;
        let first = match &self.body {
            Body::Wide(wide) => wide.first(index),
            _ if self.units == 0 => None,
            _ => Some(self.head.tick()),
        };
        first.map_or(0, |tick| (tick + window).saturating_sub(now))
    }

    /// Covers one unit that is added to a log of some units, or denied because the first entry has to
    /// expire.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    #[expect(clippy::cast_possible_truncation, reason = "what does not fit becomes zero")]
    fn check_fast(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> Option<QuotaStatus> {
        self.advance(limits, moment.now, account);
        let TickQuota { limit, window } = limits.quota(0);
        let used = u64::from(self.units) + 1;
        let units = used as u32;
        if units <= 1 || cost != 1 {
            // Nothing recorded, or wide; or about to become wide.
            return None;
        }
        let first = self.head.tick();
        // Computed late, so that it holds no register while the unit is taken.
        let reset = || first + window - moment.now;
        if used > limit {
            let reset = reset();
            let frees_one = u64::from(self.units) == limit && self.body.first_is_one();
            return frees_one.then_some(QuotaStatus { used: limit, retry: reset, reset, tick: 0 });
        }
        if !self.take_fast(first, moment.date) {
            return None;
        }
        self.units = units;
        Some(QuotaStatus { used, retry: 0, reset: reset(), tick: moment.date })
    }

    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        if moment.date < self.end() {
            return self.insert(limits, moment, cost, account);
        }
        if let Body::Wide(wide) = &mut self.body {
            return wide.take(limits, moment, cost, account);
        }
        let Some(units) = u32::try_from(cost).ok().and_then(|cost| self.units.checked_add(cost))
        else {
            return self.take_wide(limits, moment, cost, account);
        };
        if !limits.is_single() {
            return self.take_wide(limits, moment, cost, account);
        }
        let date = moment.date;
        if self.units == 0 {
            self.body.clear();
            self.head.set_tick(date);
            self.span = 0;
        } else if date > self.last() && !self.close(date, limits, account) {
            return self.take_wide(limits, moment, cost, account);
        }
        if !self.add_open(cost, limits, account) {
            return self.take_wide(limits, moment, cost, account);
        }
        self.units = units;
        date
    }

    fn charge(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) {
        self.charge_joined(limits, moment, cost, account);
    }

    fn seed(&mut self, limits: &Limits, moment: Moment, units: &[u64], account: &Account) {
        // What only a longer window remembers came before the next shorter one began.
        let mut order: Vec<usize> = (0..limits.quotas().len()).collect();
        order.sort_by_key(|index| core::cmp::Reverse(limits.quota(*index).window));
        for (place, index) in order.iter().enumerate() {
            let shorter = order.get(place + 1);
            let known = shorter.map_or(0, |shorter| units[*shorter]);
            let age = shorter.map_or(0, |shorter| limits.quota(*shorter).window);
            let more = units[*index].saturating_sub(known);
            if more > 0 {
                let date = moment.date.saturating_sub(age);
                self.take(limits, Moment { now: moment.now, date }, more, account);
            }
        }
    }

    fn give_back(
        &mut self,
        limits: &Limits,
        now: u64,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64 {
        if tick.saturating_add(limits.longest()) <= now {
            return 0;
        }
        self.remove(tick, tick, units, account)
    }

    fn forgive(&mut self, limits: &Limits, now: u64, units: u64, account: &Account) -> u64 {
        let oldest = (now + 1).saturating_sub(limits.longest());
        self.remove(oldest, u64::MAX, units, account)
    }

    fn withdraw_all<'a>(
        &mut self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a Place>,
        now: u64,
        account: &Account,
    ) {
        self.withdraw_places(limits, places, now, account);
    }

    fn place_all<'a>(
        &mut self,
        limits: &[Limits],
        places: impl Iterator<Item = &'a mut Place>,
        moment: Moment,
        account: &Account,
    ) {
        for Place { limits: index, cost, tick, .. } in self.plan(limits, places, moment) {
            let moment = Moment { now: moment.now, date: tick };
            self.take(&limits[index], moment, cost, account);
        }
    }

    #[inline]
    fn idle_at(&self, longest: u64) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.idle_at(longest),
            _ if self.units == 0 => 0,
            _ => self.last() + longest,
        }
    }

    fn heap_bytes(&self) -> usize {
        self.body.heap_bytes()
    }

    fn recorded_units(&self) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.recorded_units(),
            _ => self.units.into(),
        }
    }

    fn trim(&mut self, limits: &Limits, account: &Account) {
        match &mut self.body {
            Body::Wide(wide) => wide.trim(account),
            // A capped log is small after a merge, and grows again at once.
            _ if limits.bytes_max > 0 && self.units > 0 => {}
            // Too early to know: its block was chosen for the whole window.
            _ if self.units > 0 && u64::from(self.span) * 2 < limits.longest() => {}
            _ => self.body.trim(account),
        }
    }

    fn history(&self, each: &mut dyn FnMut(u64, u64)) -> bool {
        if let Body::Wide(wide) = &self.body {
            wide.history(each);
        } else if self.units != 0 {
            for (tick, units) in self.walk() {
                each(tick, units);
            }
        }
        true
    }

    #[inline]
    fn touch(&self) -> u64 {
        self.body.touch() ^ self.head.tick()
    }

    fn encode(&self, out: &mut Vec<u8>) {
        // A wide log is written as its codes, like any other: the form is for the memory alone.
        let mut last: Option<(u64, u64)> = None;
        let mut codes = Vec::new();
        let mut first = 0;
        self.history(&mut |tick, units| {
            match last {
                Some((at, units)) => {
                    codes.extend_from_slice(Code::new(units, tick - at).as_slice());
                }
                None => first = tick,
            }
            last = Some((tick, units));
        });
        if let Some((_, units)) = last {
            codes.extend_from_slice(Code::new(units, 0).as_slice());
        }
        out.put_u64(first);
        out.put_bytes(&codes);
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let DecodeContext { limits, epoch, account } = *context;
        let first = input.take_tick()?;
        let mut tick = first;
        let mut codes = input.take_bytes()?;
        if code::totals(codes).is_none_or(|(_, span)| tick.saturating_add(span) >> 48 != 0) {
            return Err(crate::coding::damaged("the codes of a log"));
        }
        let mut log = Self::new(limits, epoch);
        account.grow(log.heap_bytes());
        while !codes.is_empty() {
            let entry = read(codes);
            if entry.units > 0 {
                // Nothing expires while it is read: some of it may be dated ahead.
                log.take(limits, Moment { now: first, date: tick }, entry.units, account);
            }
            tick += entry.gap;
            codes = &codes[entry.len..];
        }
        Ok(log)
    }
}

impl Log {
    #[inline]
    fn last(&self) -> u64 {
        self.head.tick() + u64::from(self.span)
    }

    /// Drops every entry that is at most `overdue` ticks later than the first, in a body that is
    /// not wide.
    ///
    /// Handles short codes in a block without a function call, so that neither this function nor its
    /// caller has to save registers.
    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "parts of the sums")]
    fn expire(&mut self, overdue: u64) {
        let Body::Flat { start, buffer, .. } = &mut self.body else {
            return self.expire_slowly(overdue);
        };
        if u64::from(self.span) <= overdue {
            return self.expire_slowly(overdue);
        }
        let (mut at, mut passed, mut units) = (u32::from(*start), 0, 0);
        // The last entry stays, so every one that goes has a code, and another is behind it.
        loop {
            let Some((gap, len)) = code::peek_at(buffer, at) else {
                return self.expire_slowly(overdue);
            };
            at += len;
            passed += gap;
            units += 1;
            if passed > overdue {
                break;
            }
        }
        *start = at as u16;
        self.units -= units;
        self.span -= passed as u32;
        self.head.add(passed);
    }

    #[inline(never)]
    #[expect(clippy::cast_possible_truncation, reason = "parts of the sums")]
    fn expire_slowly(&mut self, overdue: u64) {
        if u64::from(self.span) <= overdue {
            self.units = 0;
            self.body.clear();
            return;
        }
        let mut codes = self.body.codes();
        let (mut units, mut passed) = (0, 0);
        while passed <= overdue {
            let Some(entry) = codes.next() else { break };
            passed += entry.gap;
            units += entry.units;
        }
        let at = codes.at();
        self.body.drop_to(at);
        self.units -= units as u32;
        self.span -= passed as u32;
        self.head.add(passed);
    }

    /// The tick of the entry whose expiry frees the last of `over` units.
    #[inline]
    fn freeing(&self, over: u64) -> u64 {
        let (mut tick, mut freed) = (self.head.tick(), 0);
        for entry in self.body.codes() {
            freed += entry.units;
            if freed >= over {
                return tick;
            }
            tick += entry.gap;
        }
        tick
    }

    /// The tick of the last entry; zero if there is none.
    fn end(&self) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.end(),
            _ if self.units == 0 => 0,
            _ => self.last(),
        }
    }

    /// Every tick that has units, oldest first, of a log that is not wide.
    ///
    /// Units that did not fit `open` have a code of their own, with a gap of zero to the rest of
    /// the same tick.
    fn walk(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let open = (self.last(), u64::from(self.body.open()));
        let mut tick = self.head.tick();
        let codes = self.body.codes().map(move |entry| {
            let at = tick;
            tick += entry.gap;
            (at, entry.units)
        });
        let mut entries = codes.chain(core::iter::once(open)).peekable();
        let by_tick = core::iter::from_fn(move || {
            let (tick, mut units) = entries.next()?;
            while let Some((_, more)) = entries.next_if(|(next, _)| *next == tick) {
                units += more;
            }
            Some((tick, units))
        });
        by_tick.filter(|(_, units)| *units > 0)
    }
}

#[cfg(test)]
mod tests;
