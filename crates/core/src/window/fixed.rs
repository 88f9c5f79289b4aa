//! One window aligned to the epoch.
//!
//! For migration and comparison: up to twice the limit passes around a
//! boundary. A key takes a slot of 24 bytes.

use super::stamp::Stamp;
use super::{DecodeContext, KeptSince, Limits, NEVER, Window};
use crate::account::Account;
use crate::coding::{Reader, UNITS_MAX, Writer};
use crate::error::Error;
use crate::time::Moment;

/// The count of the latest window with units.
///
/// Which window that is follows from the tick of the latest unit, so quotas with different windows read
/// the same state.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Fixed {
    /// The tick of the latest unit, and the epoch.
    last: Stamp,
    count: u64,
}

impl Window for Fixed {
    fn new(_: &Limits, epoch: u16) -> Self {
        Self { last: Stamp::new(0, epoch), count: 0 }
    }

    fn epoch(&self) -> u16 {
        self.last.rest()
    }

    #[inline]
    fn advance(&mut self, _: &Limits, _: u64, _: &Account) {}

    #[inline]
    fn used(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        if now >= self.end(limits) { 0 } else { self.count }
    }

    fn kept_units(&self, _: &Limits, since: KeptSince) -> u64 {
        if self.last.tick() >= since.oldest { self.count } else { 0 }
    }

    #[inline]
    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let limit = limits.quota(0).limit;
        if self.used(limits, 0, now).saturating_add(cost) <= limit {
            0
        } else if cost > limit {
            NEVER
        } else {
            self.end(limits).saturating_sub(now)
        }
    }

    #[inline]
    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        if self.count == 0 { 0 } else { self.end(limits).saturating_sub(now) }
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, _: &Account) -> u64 {
        let used = self.used(limits, 0, moment.date);
        self.count = used.saturating_add(cost).min(UNITS_MAX);
        self.last.set_tick(moment.date.max(self.last.tick()));
        moment.date.max(limits.window_start(self.last.tick()))
    }

    fn give_back(&mut self, limits: &Limits, now: u64, tick: u64, units: u64, _: &Account) -> u64 {
        if tick < limits.window_start(self.last.tick()) {
            return 0;
        }
        let given = units.min(self.used(limits, 0, now));
        self.count -= given;
        given
    }

    fn idle_at(&self, longest: u64) -> u64 {
        if self.count == 0 { 0 } else { self.last.tick() + longest }
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.last.tick());
        out.put_u64(self.count);
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let last = Stamp::new(input.take_tick()?, context.epoch);
        Ok(Self { last, count: input.take_units()? })
    }
}

impl Fixed {
    /// The tick from which nothing counts.
    #[inline]
    fn end(&self, limits: &Limits) -> u64 {
        limits.window_start(self.last.tick()) + limits.quota(0).window
    }
}
