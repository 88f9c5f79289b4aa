//! Two aligned windows: the current one counts fully, the previous one in proportion to its overlap.
//!
//! The count is `current + previous * (window - elapsed) / window`, rounded up. It is exact if the
//! units of the previous window were spread evenly. If they all came at its end, up to `limit` units
//! too many are admitted per window. If they all came at its start, a request is denied for up to one
//! window too long. A key takes a slot of 32 bytes.

use super::stamp::{Count, Stamp, window_tag};
use super::{DecodeContext, KeptSince, Limits, NEVER, QuotaStatus, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::error::Error;
use crate::time::Moment;

/// Counts of the current and the previous window.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counter {
    /// The start of the current window, and the tag of the window's length.
    start: Stamp,
    /// Units of the previous window, and half of the epoch.
    previous: Count,
    /// Units of the current window, and the other half.
    current: Count,
}

impl Window for Counter {
    fn new(limits: &Limits, epoch: u16) -> Self {
        let [high, low] = epoch.to_be_bytes();
        Self {
            start: Stamp::new(0, window_tag(limits.quota(0).window)),
            previous: Count::new(0, high),
            current: Count::new(0, low),
        }
    }

    fn epoch(&self) -> u16 {
        u16::from_be_bytes([self.previous.rest(), self.current.rest()])
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, now: u64, _: &Account) {
        let window = limits.quota(0).window;
        if self.start.rest() != window_tag(window) {
            self.change_window(window, now);
        }
        self.rotate(now, window);
    }

    #[inline]
    fn used(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let window = limits.quota(0).window;
        self.current.get() + carried(self.previous.get(), self.left(now, window), window)
    }

    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64 {
        let window = limits.quota(0).window;
        let is_known = self.start.rest() == window_tag(window);
        let start = self.start.tick();
        let end = start + if is_known { window } else { since.longest };
        let of = |count: &Count, end: u64| if end > since.oldest { count.get() } else { 0 };
        of(&self.current, end) + of(&self.previous, start)
    }

    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let TickQuota { limit, window } = limits.quota(0);
        if self.used(limits, 0, now).saturating_add(cost) <= limit {
            return 0;
        }
        let Some(room) = limit.checked_sub(cost) else {
            return NEVER;
        };
        let left = self.left(now, window) + self.lead(now);
        // In this window, when the previous one counts few enough units ...
        if let Some(room) = room.checked_sub(self.current.get()) {
            return left - overlap_for(room, self.previous.get(), window);
        }
        // ... or in the next one, when this one does.
        left + window - overlap_for(room, self.current.get(), window)
    }

    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let window = limits.quota(0).window;
        let left = self.left(now, window);
        let carry = carried(self.previous.get(), left, window);
        self.less_in(carry, left + self.lead(now), window)
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
        let start = self.start.tick();
        // Wraps if `date` is before `start`, and then it is not less than the window.
        let is_current = start <= now && date.wrapping_sub(start) < window;
        if !is_current || self.start.rest() != limits.window_tag {
            return None;
        }
        let left = window + start - now;
        let carry = carried(self.previous.get(), left, window);
        let used = self.current.get() + carry;
        // Both are far below 2^63.
        let wanted = used + cost;
        if wanted > limit {
            if wanted != limit + 1 || used == 0 {
                return None;
            }
            let reset = if carry == 0 && used == limit {
                left + limits.ticks_per_unit
            } else {
                self.less_in(carry, left, window)
            };
            return Some(QuotaStatus { used, retry: reset, reset, tick: 0 });
        }
        self.current.add(cost);
        let reset = self.less_in(carry, left, window);
        Some(QuotaStatus { used: wanted, retry: 0, reset, tick: date })
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, _: &Account) -> u64 {
        self.rotate(moment.date, limits.quota(0).window);
        self.current.set(self.current.get().saturating_add(cost));
        moment.date.max(self.start.tick())
    }

    fn give_back(&mut self, limits: &Limits, _: u64, tick: u64, units: u64, _: &Account) -> u64 {
        let window = limits.quota(0).window;
        let count = if tick >= self.start.tick() {
            &mut self.current
        } else if tick + window >= self.start.tick() {
            &mut self.previous
        } else {
            return 0;
        };
        let given = units.min(count.get());
        count.set(count.get() - given);
        given
    }

    fn idle_at(&self, longest: u64) -> u64 {
        if self.current.get() > 0 {
            self.start.tick() + 2 * longest
        } else if self.previous.get() > 0 {
            self.start.tick() + longest
        } else {
            0
        }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.start.tick());
        out.put_u64(u64::from(self.start.rest()));
        out.put_u64(self.previous.get());
        out.put_u64(self.current.get());
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let mut counter = Self::new(context.limits, context.epoch);
        let tick = input.take_tick()?;
        counter.start = Stamp::new(tick, u16::try_from(input.take_u64()?).unwrap_or_default());
        counter.previous.set(input.take_units()?);
        counter.current.set(input.take_units()?);
        Ok(counter)
    }
}

impl Counter {
    /// Makes the window that contains `tick` the current one.
    #[inline]
    fn rotate(&mut self, tick: u64, window: u64) {
        let passed = tick.saturating_sub(self.start.tick());
        if passed < window {
            return;
        }
        let kept = if passed < 2 * window { self.current.get() } else { 0 };
        self.previous.set(kept);
        self.current.set(0);
        self.start.set_tick(tick - tick % window);
    }

    /// Returns the ticks until fewer units count, if the previous window counts as `carry` units and
    /// the current one ends in `left` ticks.
    #[inline]
    fn less_in(&self, carry: u64, left: u64, window: u64) -> u64 {
        if carry > 0 {
            return left - overlap_for(carry - 1, self.previous.get(), window);
        }
        match self.current.get() {
            0 => 0,
            // Spares a busy key the division, which takes about a sixth of a check.
            current if current >= window => left + 1,
            current => left + window.div_ceil(current),
        }
    }

    /// Changes the window length. All units that may still count do, as if they were recorded now.
    #[cold]
    fn change_window(&mut self, window: u64, now: u64) {
        let units = self.previous.get().saturating_add(self.current.get());
        self.start = Stamp::new(now - now % window, window_tag(window));
        self.previous.set(0);
        self.current.set(units);
    }

    /// Returns the ticks until the window begins, if the last unit was recorded in one that has not
    /// begun yet.
    #[inline]
    fn lead(&self, now: u64) -> u64 {
        self.start.tick().saturating_sub(now)
    }

    /// Ticks of the previous window that still overlap; all of it before the window has begun.
    #[inline]
    fn left(&self, now: u64, window: u64) -> u64 {
        window - now.saturating_sub(self.start.tick()).min(window)
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
