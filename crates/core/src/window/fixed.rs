//! One window aligned to the epoch.
//!
//! For migration and comparison: up to twice the limit passes around a
//! boundary. A key takes a slot of 24 bytes.

use super::stamp::{Count, Stamp, window_tag};
use super::{DecodeContext, KeptSince, Limits, NEVER, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::error::Error;
use crate::time::Moment;

/// The count of the current window.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fixed {
    /// Where the window starts, and the epoch.
    start: Stamp,
    /// Units, and eight bits of the tag of the window's length.
    count: Count,
}

impl Window for Fixed {
    fn new(limits: &Limits, epoch: u16) -> Self {
        Self { start: Stamp::new(0, epoch), count: Count::new(0, tag(limits.quota(0).window)) }
    }

    fn epoch(&self) -> u16 {
        self.start.rest()
    }

    #[inline]
    fn advance(&mut self, limits: &Limits, now: u64, _: &Account) {
        let window = limits.quota(0).window;
        if self.count.rest() != tag(window) {
            // Another window: the units count as if they came now.
            self.count = Count::new(self.count.get(), tag(window));
            self.start.set_tick(now - now % window);
        }
        self.rotate(now, window);
    }

    #[inline]
    fn used(&self, _: &Limits, _: usize, _: u64) -> u64 {
        self.count.get()
    }

    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64 {
        let window = limits.quota(0).window;
        let is_known = self.count.rest() == tag(window);
        let end = self.start.tick() + if is_known { window } else { since.longest };
        if end > since.oldest { self.count.get() } else { 0 }
    }

    #[inline]
    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let TickQuota { limit, window } = limits.quota(0);
        if self.count.get().saturating_add(cost) <= limit {
            0
        } else if cost > limit {
            NEVER
        } else {
            (self.start.tick() + window).saturating_sub(now)
        }
    }

    #[inline]
    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        if self.count.get() == 0 {
            return 0;
        }
        (self.start.tick() + limits.quota(0).window).saturating_sub(now)
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, _: &Account) -> u64 {
        self.rotate(moment.date, limits.quota(0).window);
        self.count.set(self.count.get().saturating_add(cost));
        moment.date.max(self.start.tick())
    }

    fn give_back(&mut self, _: &Limits, _: u64, tick: u64, units: u64, _: &Account) -> u64 {
        if tick < self.start.tick() {
            return 0;
        }
        let given = units.min(self.count.get());
        self.count.set(self.count.get() - given);
        given
    }

    fn idle_at(&self, longest: u64) -> u64 {
        if self.count.get() == 0 { 0 } else { self.start.tick() + longest }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.start.tick());
        out.put_u64(u64::from(self.count.rest()));
        out.put_u64(self.count.get());
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let start = Stamp::new(input.take_tick()?, context.epoch);
        let tag = u8::try_from(input.take_u64()?).unwrap_or_default();
        Ok(Self { start, count: Count::new(input.take_units()?, tag) })
    }
}

impl Fixed {
    #[inline]
    fn rotate(&mut self, tick: u64, window: u64) {
        if tick.saturating_sub(self.start.tick()) >= window {
            self.start.set_tick(tick - tick % window);
            self.count.set(0);
        }
    }
}

fn tag(window: u64) -> u8 {
    let [high, low] = window_tag(window).to_be_bytes();
    high ^ low
}
