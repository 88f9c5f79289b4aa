//! The exact log: every unit in the window, at about a byte a request.
//!
//! State is the tick of the first entry, the span to the last one, the units on record, and a run
//! of byte codes (see `code.rs`). Memory follows what is in the window, not the limit: up to
//! twenty bytes of codes live in the slot itself, more in one block that grows and shrinks by a
//! sixteenth, and a log beyond 16 KiB, beyond 2^32 units, beyond 2^32 ticks, or with several
//! quotas in chunks with partial sums (see `wide.rs`).
//!
//! Exact: never over, never under. When a byte cap or the memory budget does not let a log grow,
//! neighbouring entries are merged into one dated at the later (see `merge.rs`): still never over.

mod body;
mod code;
mod cursor;
mod give_back;
mod merge;
mod take;
mod wide;

use self::body::Body;
use self::code::{Code, read};
use self::wide::Wide;
use super::stamp::Stamp;
use super::{Limits, NEVER, Standing, TickQuota, Window};
use crate::error::Error;
use crate::memory::{Account, Reader, Writer};
use crate::time::Moment;

/// Entries of one key.
#[derive(Debug)]
pub(crate) struct Log {
    /// The tick of the first entry, and the epoch.
    head: Stamp,
    /// Ticks from the first entry to the last.
    span: u32,
    /// Units on record; none means that nothing else is either.
    units: u32,
    body: Body,
}

const _: () = assert!(size_of::<Log>() == 40);

impl Window for Log {
    const WAITS: bool = true;

    #[inline]
    fn new(limits: &Limits, epoch: u16) -> Self {
        let body =
            if limits.is_single() { Body::EMPTY } else { Body::Wide(Box::new(Wide::new(limits))) };
        Self { head: Stamp::new(0, epoch), span: 0, units: 0, body }
    }

    fn vacant() -> Self {
        Self { head: Stamp::new(0, 0), span: 0, units: 0, body: Body::EMPTY }
    }

    #[inline]
    fn epoch(&self) -> u16 {
        self.head.rest()
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, now: u64, account: &Account) {
        if let Body::Wide(wide) = &mut self.body {
            wide.advance(limits, now, account);
            return;
        }
        let Some(horizon) = now.checked_sub(limits.longest()) else {
            return;
        };
        if self.units != 0 && self.head.tick() <= horizon {
            self.expire(horizon);
        }
    }

    #[inline]
    fn used(&self, _: &Limits, index: usize, _: u64) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.used(index),
            _ => u64::from(self.units),
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

    #[inline]
    fn check(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> Standing {
        if matches!(self.body, Body::Wide(_)) {
            return self.check_slowly(limits, moment, cost, account);
        }
        let TickQuota { limit, window } = limits.quota(0);
        let now = moment.now;
        if self.units != 0 && self.head.tick() + window <= now {
            self.expire(now - window);
        }
        let used = u64::from(self.units);
        if used + cost > limit {
            return self.deny(used, limits, now, cost);
        }
        if let Some(tick) = self.take_usual(moment.date, cost) {
            let reset = self.head.tick() + window - now;
            return Standing { used: used + cost, retry: 0, reset, tick };
        }
        let tick = self.take(limits, moment, cost, account);
        Standing { used: used + cost, retry: 0, reset: self.reset(limits, 0, now), tick }
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
        match &mut self.body {
            Body::Wide(wide) => wide.give_back(tick, units, account),
            _ => self.give_back_flat(tick, units, account),
        }
    }

    fn confirm(
        &mut self,
        limits: &Limits,
        moment: Moment,
        tick: u64,
        units: u64,
        account: &Account,
    ) -> u64 {
        let wait = limits.quotas().iter().map(|quota| self.line(quota, moment, tick, units)).max();
        match wait {
            Some(wait) if wait > 0 => wait,
            _ => {
                if moment.date > tick {
                    self.redate(limits, moment, tick, units, account);
                }
                0
            }
        }
    }

    fn end(&self) -> u64 {
        match &self.body {
            Body::Wide(wide) => wide.end(),
            _ if self.units == 0 => 0,
            _ => self.last(),
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

    fn trim(&mut self, limits: &Limits, account: &Account) {
        match &mut self.body {
            Body::Wide(wide) if wide.is_empty() => {
                account.shrink(wide.heap_bytes());
                self.body = Body::EMPTY;
                self.units = 0;
            }
            Body::Wide(wide) => wide.trim(account),
            // A capped log is small after a merge, and grows again at once.
            _ if limits.bytes_max > 0 && self.units > 0 => {}
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
        let codes = self.body.codes();
        let ends = codes.first().zip(codes.last());
        ends.map_or(self.head.tick(), |(first, last)| u64::from(*first) << 8 | u64::from(*last))
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

    fn decode(
        input: &mut &[u8],
        limits: &Limits,
        epoch: u16,
        shift: u64,
        account: &Account,
    ) -> Result<Self, Error> {
        let first = input.take_u64()?.saturating_sub(shift);
        let mut tick = first;
        let mut codes = input.take_bytes()?;
        if code::totals(codes).is_none_or(|(_, span)| tick.saturating_add(span) >> 48 != 0) {
            return Err(crate::memory::damaged("the codes of a log"));
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

    #[cold]
    fn check_slowly(
        &mut self,
        limits: &Limits,
        moment: Moment,
        cost: u64,
        account: &Account,
    ) -> Standing {
        self.advance(limits, moment.now, account);
        let retry = self.retry(limits, 0, moment.now, cost);
        let tick = if retry == 0 { self.take(limits, moment, cost, account) } else { 0 };
        let used = self.used(limits, 0, moment.now);
        Standing { used, retry, reset: self.reset(limits, 0, moment.now), tick }
    }

    #[inline]
    fn deny(&self, used: u64, limits: &Limits, now: u64, cost: u64) -> Standing {
        let retry = self.retry(limits, 0, now, cost);
        Standing { used, retry, reset: self.reset(limits, 0, now), tick: 0 }
    }

    /// Drops every entry at or before `horizon`.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "gaps and units are parts of the sums")]
    fn expire(&mut self, horizon: u64) {
        if self.last() <= horizon {
            self.units = 0;
            self.body.clear();
            return;
        }
        let codes = self.body.codes();
        let mut tick = self.head.tick();
        let (mut bytes, mut units, start) = (0, 0, tick);
        while tick <= horizon {
            let Some(rest) = codes.get(bytes..).filter(|rest| !rest.is_empty()) else {
                break;
            };
            let entry = read(rest);
            tick += entry.gap;
            units += entry.units;
            bytes += entry.len;
        }
        self.units -= units as u32;
        self.span -= (tick - start) as u32;
        self.head.set_tick(tick);
        self.body.drop_front(bytes);
    }

    /// The tick of the entry whose expiry frees the last of `over` units.
    #[inline]
    fn freeing(&self, over: u64) -> u64 {
        let codes = self.body.codes();
        let mut tick = self.head.tick();
        let (mut bytes, mut freed) = (0, 0);
        while let Some(rest) = codes.get(bytes..).filter(|rest| !rest.is_empty()) {
            let entry = read(rest);
            freed += entry.units;
            if freed >= over {
                return tick;
            }
            tick += entry.gap;
            bytes += entry.len;
        }
        tick
    }

    /// Every entry with its tick, oldest first, of a log that is not wide.
    fn walk(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let open = (self.last(), u64::from(self.body.open()));
        let mut tick = self.head.tick();
        let mut rest = self.body.codes();
        let codes = core::iter::from_fn(move || {
            if rest.is_empty() {
                return None;
            }
            let entry = read(rest);
            let at = tick;
            tick += entry.gap;
            rest = &rest[entry.len.min(rest.len())..];
            Some((at, entry.units))
        });
        codes.chain(core::iter::once(open)).filter(|(_, units)| *units > 0)
    }
}

#[cfg(test)]
mod tests;
