//! Two aligned windows: the current one counts fully, the previous one in proportion to its overlap.
//!
//! The count is `current + previous * (window - elapsed) / window`, rounded up. It is exact if the
//! units of the previous window were spread evenly. If they all came at its end, up to `limit` units
//! too many are admitted per window. If they all came at its start, a request is denied for up to one
//! window too long. A key takes a slot of 32 bytes.

use super::stamp::{Count, Stamp, window_tag};
use super::{DecodeContext, KeptSince, Limits, NEVER, QuotaStatus, TICK_MAX, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::error::Error;
use crate::time::Moment;

/// Counts of the latest window with units and of the one before it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The tick of the latest unit, and the tag of the window's length.
    last: Stamp,
    /// Units of the window before that of `last`, and half of the epoch.
    previous: Count,
    /// Units of the window of `last`, and the other half.
    current: Count,
}

/// The counts as they are at a tick.
#[derive(Debug, Clone, Copy)]
struct Counts {
    /// The start of the current window.
    start: u64,
    previous: u64,
    current: u64,
    window: u64,
}

impl Window for Counter {
    fn new(limits: &Limits, epoch: u16) -> Self {
        let [high, low] = epoch.to_be_bytes();
        Self {
            last: Stamp::new(0, window_tag(limits.quota(0).window)),
            previous: Count::new(0, high),
            current: Count::new(0, low),
        }
    }

    fn epoch(&self) -> u16 {
        u16::from_be_bytes([self.previous.rest(), self.current.rest()])
    }

    #[inline]
    fn is_foreign(&self, limits: &Limits, index: usize) -> bool {
        self.last.rest() != window_tag(limits.quota(index).window)
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, _: u64, _: &Account) {
        if self.is_foreign(limits, 0) {
            self.convert(limits);
        }
    }

    #[inline]
    fn used(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let counts = self.counts(limits, now);
        counts.current + counts.carried(now)
    }

    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64 {
        let last = self.last.tick();
        // The previous window ended before that of the latest unit began, if that window is known.
        let is_over = !self.is_foreign(limits, 0) && limits.window_start(last) <= since.oldest;
        let previous = if is_over { 0 } else { self.previous.get() };
        if last >= since.oldest { self.current.get() + previous } else { 0 }
    }

    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let TickQuota { limit, window } = limits.quota(0);
        let counts = self.counts(limits, now);
        let used = counts.current + counts.carried(now);
        if used.saturating_add(cost) <= limit {
            return 0;
        }
        let Some(room) = limit.checked_sub(cost) else {
            return NEVER;
        };
        let left = counts.ends_in(now);
        // In this window, when the previous one counts few enough units ...
        if let Some(room) = room.checked_sub(counts.current) {
            return left - overlap_for(room, counts.previous, window);
        }
        // ... or in the next one, when this one does.
        left + window - overlap_for(room, counts.current, window)
    }

    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let counts = self.counts(limits, now);
        counts.less_in(counts.carried(now), counts.ends_in(now))
    }

    /// Covers a request in the current window that passes or for which one unit is missing. Then the
    /// time until fewer units count is also the time until the request passes.
    #[inline(always)]
    #[expect(clippy::inline_always, reason = "a call would cost a tenth of the check")]
    fn check_fast(
        &mut self,
        limits: &Limits,
        Moment { now, date }: Moment,
        cost: u64,
        _: &Account,
    ) -> Option<QuotaStatus> {
        let TickQuota { limit, window } = limits.quota(0);
        let start = limits.window_start(self.last.tick());
        // Wraps if `date` is before `start`, and then it is not less than the window.
        let is_current = start <= now && date.wrapping_sub(start) < window;
        if !is_current || self.last.rest() != limits.derived.window_tag {
            return None;
        }
        let left = window + start - now;
        let (previous, current) = (self.previous.get(), self.current.get());
        let counts = Counts { start, previous, current, window };
        let carry = carried(previous, left, window);
        let used = current + carry;
        // Both are far below 2^63.
        let wanted = used + cost;
        if wanted > limit {
            if wanted != limit + 1 || used == 0 {
                return None;
            }
            let reset = if carry == 0 && used == limit {
                left + limits.derived.ticks_per_unit
            } else {
                counts.less_in(carry, left)
            };
            return Some(QuotaStatus { used, retry: reset, reset, tick: 0 });
        }
        self.current.add(cost);
        self.last.set_tick(date.max(self.last.tick()));
        let reset = Counts { current: current + cost, ..counts }.less_in(carry, left);
        Some(QuotaStatus { used: wanted, retry: 0, reset, tick: date })
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        self.advance(limits, moment.now, account);
        let counts = self.counts(limits, moment.date);
        self.previous.set(counts.previous);
        self.current.set(counts.current.saturating_add(cost));
        self.last.set_tick(moment.date.max(self.last.tick()));
        moment.date.max(counts.start)
    }

    fn give_back(&mut self, limits: &Limits, now: u64, tick: u64, units: u64, _: &Account) -> u64 {
        let mut read = *self;
        if read.is_foreign(limits, 0) {
            read.convert(limits);
        }
        let window = limits.quota(0).window;
        let start = limits.window_start(read.last.tick());
        let passed = now.saturating_sub(start);
        let count = if tick >= start && passed < 2 * window {
            &mut read.current
        } else if tick < start && tick + window >= start && passed < window {
            &mut read.previous
        } else {
            return 0;
        };
        let given = units.min(count.get());
        count.set(count.get() - given);
        if given > 0 {
            *self = read;
        }
        given
    }

    fn forgive(&mut self, limits: &Limits, now: u64, units: u64, account: &Account) -> u64 {
        let start = limits.window_start(self.last.tick());
        let before = start.checked_sub(1);
        let given = before.map_or(0, |tick| self.give_back(limits, now, tick, units, account));
        given + self.give_back(limits, now, TICK_MAX, units - given, account)
    }

    fn idle_at(&self, longest: u64) -> u64 {
        let is_empty = self.previous.get() == 0 && self.current.get() == 0;
        if is_empty { 0 } else { self.last.tick() + 2 * longest }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last.tick());
        out.put_u64(u64::from(self.last.rest()));
        out.put_u64(self.previous.get());
        out.put_u64(self.current.get());
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let mut counter = Self::new(context.limits, context.epoch);
        let tick = input.take_tick()?;
        counter.last = Stamp::new(tick, u16::try_from(input.take_u64()?).unwrap_or_default());
        counter.previous.set(input.take_units()?);
        counter.current.set(input.take_units()?);
        Ok(counter)
    }
}

impl Counter {
    #[inline]
    fn counts(&self, limits: &Limits, now: u64) -> Counts {
        let window = limits.quota(0).window;
        let start = limits.window_start(self.last.tick());
        let (previous, current) = (self.previous.get(), self.current.get());
        let passed = now.saturating_sub(start);
        if passed < window {
            return Counts { start, previous, current, window };
        }
        let previous = if passed < 2 * window { current } else { 0 };
        Counts { start: limits.window_start(now), previous, current: 0, window }
    }

    /// Changes the window length. All units count as recorded with the latest one.
    #[cold]
    fn convert(&mut self, limits: &Limits) {
        let units = self.previous.get() + self.current.get();
        self.last = Stamp::new(self.last.tick(), window_tag(limits.quota(0).window));
        self.previous.set(0);
        self.current.set(units);
    }
}

impl Counts {
    /// What the previous window counts at `now`: all of it before the current one has begun.
    #[inline]
    fn carried(&self, now: u64) -> u64 {
        let elapsed = now.saturating_sub(self.start).min(self.window);
        carried(self.previous, self.window - elapsed, self.window)
    }

    /// The ticks until the current window ends. It may not have begun.
    #[inline]
    fn ends_in(&self, now: u64) -> u64 {
        (self.start + self.window).saturating_sub(now)
    }

    /// Returns the ticks until fewer units count, if the previous window counts as `carry` units and
    /// the current one ends in `left` ticks.
    #[inline]
    fn less_in(&self, carry: u64, left: u64) -> u64 {
        if carry > 0 {
            return left - overlap_for(carry - 1, self.previous, self.window);
        }
        match self.current {
            0 => 0,
            // Spares a busy key the division, which takes about a sixth of a check.
            current if current >= self.window => left + 1,
            current => left + self.window.div_ceil(current),
        }
    }
}

/// What `previous` units weigh with `overlap` of `window` ticks left, at most all of them. Rounded up:
/// rounding down would let one unit too many through.
#[inline]
fn carried(previous: u64, overlap: u64, window: u64) -> u64 {
    if previous == 0 {
        return 0;
    }
    match previous.checked_mul(overlap) {
        Some(product) => product.div_ceil(window),
        None => {
            let product = u128::from(previous) * u128::from(overlap);
            u64::try_from(product.div_ceil(u128::from(window))).unwrap_or(u64::MAX)
        }
    }
}

/// The largest overlap at which `count` units weigh no more than `room`, rounded down.
fn overlap_for(room: u64, count: u64, window: u64) -> u64 {
    if count <= room {
        return window;
    }
    let overlap = match room.checked_mul(window) {
        Some(product) => product / count,
        None => {
            let overlap = u128::from(room) * u128::from(window) / u128::from(count);
            u64::try_from(overlap).unwrap_or(window)
        }
    };
    overlap.min(window)
}

#[cfg(test)]
mod tests;
