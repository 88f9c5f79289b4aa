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
mod merge;
mod wide;

use self::body::{Body, CAPPED_MAX, FLAT_MAX};
use self::code::{Code, Entry, read};
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
    fn new(_: &Limits, epoch: u16) -> Self {
        Self { head: Stamp::new(0, epoch), span: 0, units: 0, body: Body::EMPTY }
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
        let mut date = moment.date;
        if self.units == 0 {
            self.body.clear();
            self.head.set_tick(date);
            self.span = 0;
        } else {
            let last = self.last();
            if date <= last {
                date = last;
            } else if !self.close(date, limits, account) {
                return self.take_wide(limits, moment, cost, account);
            }
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
        let wait = limits.quotas().iter().map(|quota| self.line(quota, moment.now, tick)).max();
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

    fn trim(&mut self, account: &Account) {
        match &mut self.body {
            Body::Wide(wide) if wide.is_empty() => {
                account.shrink(wide.heap_bytes());
                self.body = Body::EMPTY;
                self.units = 0;
            }
            Body::Wide(wide) => wide.trim(account),
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

    fn encode(&self, out: &mut Vec<u8>) {
        // A wide log is written as its codes, like any other: the form is for the memory alone.
        let mut last: Option<(u64, u64)> = None;
        let mut codes = Vec::new();
        let mut first = 0;
        self.history(&mut |tick, units| {
            match last {
                Some((at, units)) => {
                    codes.extend_from_slice(Code::new(units, tick - at).as_slice())
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

    /// Takes in the usual cases: one unit, a code of one or two bytes, room for it. None, and
    /// nothing taken, in all others.
    #[inline]
    fn take_usual(&mut self, date: u64, cost: u64) -> Option<u64> {
        let last = self.last();
        if cost != 1 || self.units == 0 || self.units == u32::MAX {
            return None;
        }
        if date <= last {
            let open = self.body.open();
            if open == u16::MAX {
                return None;
            }
            self.body.set_open(open + 1);
            self.units += 1;
            return Some(last);
        }
        let gap = date - last;
        let (Some(span), 1) = (self.span.checked_add(u32::try_from(gap).ok()?), self.body.open())
        else {
            return None;
        };
        let pushed = match Code::short(gap)? {
            (byte, None) => self.body.push_byte(byte),
            (first, Some(second)) => self.body.push_pair(first, second),
        };
        // The entry before had one unit, and so has this one: what is open stays as it is.
        if pushed {
            self.span = span;
            self.units += 1;
        }
        pushed.then_some(date)
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

    /// Writes the code of the open entry, now that the gap to the next is known; false if the log
    /// needs the wide form.
    #[inline]
    fn close(&mut self, date: u64, limits: &Limits, account: &Account) -> bool {
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
        if self.body.make_room(bytes.len(), most, account) {
            return self.body.push(bytes);
        }
        if limits.bytes_max == 0 && self.body.codes().len() + bytes.len() > FLAT_MAX {
            return false;
        }
        self.squeeze(limits);
        // The entry that `code` is for has not moved, and one code always fits.
        self.body.push(bytes)
            || (self.body.make_room(bytes.len(), most, account) && self.body.push(bytes))
    }

    /// Merges entries until at least half of the room is free.
    #[cold]
    fn squeeze(&mut self, limits: &Limits) {
        let last = self.last();
        let target = self.body.codes().len() / 2;
        let mut quantum = match limits.bytes_max {
            0 => 2,
            cap => merge::first_quantum(limits.longest(), cap),
        };
        merge::with_scratch(|scratch| {
            while self.body.codes().len() > target.max(7) && quantum <= limits.longest() * 2 {
                let first =
                    merge::merge(self.body.codes(), self.head.tick(), last, quantum, scratch);
                if scratch.len() < self.body.codes().len() && self.body.replace(scratch) {
                    self.head.set_tick(first);
                    #[expect(clippy::cast_possible_truncation, reason = "shorter than before")]
                    let span = (last - first) as u32;
                    self.span = span;
                }
                quantum *= 2;
            }
        });
        if self.body.codes().len() > target.max(7) {
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
    #[expect(clippy::cast_possible_truncation, reason = "compared with the largest u16")]
    fn add_open(&mut self, cost: u64, limits: &Limits, account: &Account) -> bool {
        let open = u64::from(self.body.open()) + cost;
        if open <= u64::from(u16::MAX) {
            self.body.set_open(open as u16);
            return true;
        }
        self.add_open_cold(open, limits, account)
    }

    /// More units than fit beside the codes: all but one become an entry of the same tick.
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
    fn take_wide(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        self.widen(limits, moment.now, account);
        match &mut self.body {
            Body::Wide(wide) => wide.take(limits, moment, cost, account),
            _ => moment.date,
        }
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

    fn give_back_flat(&mut self, tick: u64, units: u64, account: &Account) -> u64 {
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
        let (mut at, mut before, mut here) = (0, None, self.head.tick());
        let codes = self.body.codes();
        while at < codes.len() {
            let entry = read(&codes[at..]);
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
            self.body.drop_front(entry.len);
            return true;
        };
        let code = Code::new(previous.units, previous.gap + entry.gap);
        let old = previous.len + entry.len;
        if self.body.splice(from, old, code.as_slice()) {
            return true;
        }
        let more = code.as_slice().len() - old;
        self.body.make_room(more, CAPPED_MAX, account)
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

    /// Ticks until units dated `tick`, which wait in line, may be used under one quota: what is
    /// dated after them waits behind them.
    fn line(&self, quota: &TickQuota, now: u64, tick: u64) -> u64 {
        let mut before = 0u64;
        self.history(&mut |at, units| {
            if at <= tick && at + quota.window > now {
                before = before.saturating_add(units);
            }
        });
        let mut over = before.saturating_sub(quota.limit);
        let mut wait = tick.saturating_sub(now);
        self.history(&mut |at, units| {
            if at + quota.window > now && over > 0 {
                wait = wait.max(at + quota.window - now);
                over = over.saturating_sub(units);
            }
        });
        wait
    }

    /// Moves units dated `tick` to the moment's date, and leaves every other entry where it is.
    fn redate(
        &mut self,
        limits: &Limits,
        moment: Moment,
        tick: u64,
        units: u64,
        account: &Account,
    ) {
        let mut tail = self.split_off(tick, account);
        let mut moved = 0;
        for (_, there) in &mut tail {
            let some = (*there).min(units - moved);
            *there -= some;
            moved += some;
        }
        let at = tail.partition_point(|(tick, _)| *tick <= moment.date);
        tail.insert(at, (moment.date, moved));
        for (date, units) in tail.into_iter().filter(|(_, units)| *units > 0) {
            self.take(limits, Moment { now: moment.now, date }, units, account);
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

    /// Turns the log into its wide form.
    #[cold]
    fn widen(&mut self, limits: &Limits, now: u64, account: &Account) {
        if matches!(self.body, Body::Wide(_)) {
            return;
        }
        let mut wide = Wide::new(limits);
        account.grow(Wide::FIXED_BYTES);
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

#[cfg(test)]
mod tests;
