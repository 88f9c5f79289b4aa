//! The generic cell rate algorithm: a bucket of `limit` units that refills evenly.
//!
//! State is the theoretical arrival time, exact to a fraction of a tick. Bound: a full bucket and the
//! refill of a window, so up to twice the limit in an interval of one window, and exactly twice if a burst
//! comes late in its tick. A clock that lags adds the refill of one tick, which is less than a unit up
//! to a limit of one per tick. A key takes a slot of 24 bytes.
//!
//! Requests of one tick are at the start of it. Dated at its end, as entries of the log are, the first
//! request of a burst would cost a tick more than its units, and the last one of the limit be denied.

use super::stamp::Stamp;
use super::{DecodeContext, KeptSince, Limits, NEVER, TICK_MAX, TickQuota, Window};
use crate::account::Account;
use crate::coding::{Reader, Writer};
use crate::error::Error;
use crate::time::Moment;

/// When the bucket will be full again.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Gcra {
    /// Whole ticks, and the epoch.
    full_at: Stamp,
    /// The rest of a tick, in parts of the limit it was taken under.
    parts: u64,
}

impl Window for Gcra {
    fn new(_: &Limits, epoch: u16) -> Self {
        Self { full_at: Stamp::new(0, epoch), parts: 0 }
    }

    fn epoch(&self) -> u16 {
        self.full_at.rest()
    }

    fn set_epoch(&mut self, epoch: u16) {
        self.full_at = Stamp::new(self.full_at.tick(), epoch);
    }

    #[inline]
    fn advance(&mut self, _: &Limits, now: u64, _: &Account) {
        let full = self.full_at.tick() < now || (self.full_at.tick() == now && self.parts == 0);
        if full {
            // What was taken before has all been refilled: receipts for it are void, or they would
            // give back units that are taken from now on.
            self.full_at = Stamp::new(now, self.full_at.rest().wrapping_add(NEXT_EPOCH));
            self.parts = 0;
        }
    }

    #[inline]
    fn used(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let TickQuota { window, .. } = limits.quota(0);
        let ahead = self.ahead(limits, now);
        u64::try_from(ahead.div_ceil(u128::from(window))).unwrap_or(u64::MAX)
    }

    /// Those that are not refilled yet, as a share of the policy's limit.
    fn kept_units(&self, limits: &Limits, since: KeptSince) -> u64 {
        self.used(limits, 0, since.now)
    }

    #[inline]
    fn retry(&self, limits: &Limits, _: usize, now: u64, cost: u64) -> u64 {
        let TickQuota { limit, window } = limits.quota(0);
        if cost > limit {
            return NEVER;
        }
        let wanted = self.ahead(limits, now) + u128::from(cost) * u128::from(window);
        ticks_over(wanted, limit, window)
    }

    #[inline]
    fn reset(&self, limits: &Limits, _: usize, now: u64) -> u64 {
        let (rate, window) = (rate(limits), limits.quota(0).window);
        let ahead = self.ahead(limits, now);
        if ahead == 0 {
            return 0;
        }
        // One more whole unit is there once `ahead` has shrunk to a unit less than now, in units
        // rounded up.
        let units = ahead.div_ceil(u128::from(window)) - 1;
        let over = ahead - units * u128::from(window);
        u64::try_from(over.div_ceil(u128::from(rate))).unwrap_or(NEVER - 1)
    }

    #[inline]
    fn take(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        let (window, now) = (limits.quota(0).window, moment.now);
        self.advance(limits, now, account);
        let ahead = self.ahead(limits, now) + u128::from(cost) * u128::from(window);
        self.set_ahead(now, ahead, rate(limits));
        moment.date
    }

    /// What has been refilled since is not given back: it would come out of units that were taken
    /// meanwhile. The refill is computed as if the bucket had been full before, so that too little
    /// is given back rather than too much.
    fn give_back(&mut self, limits: &Limits, now: u64, tick: u64, units: u64, _: &Account) -> u64 {
        if self.full_at.tick() < now {
            return 0;
        }
        let (rate, window) = (rate(limits), limits.quota(0).window);
        let refilled = u128::from(now.saturating_sub(tick)) * u128::from(rate);
        let left = (u128::from(units) * u128::from(window)).saturating_sub(refilled);
        let ahead = self.ahead(limits, now);
        let given = left.min(ahead);
        self.set_ahead(now, ahead - given, rate);
        u64::try_from(given.div_ceil(u128::from(window))).unwrap_or(units)
    }

    /// Units are refilled in the order in which they were taken. So these begin to be refilled
    /// when all units before them are, and from then on they cannot be given back in full.
    fn take_ahead(&mut self, limits: &Limits, moment: Moment, cost: u64, account: &Account) -> u64 {
        let refilled_from = self.full_at.tick();
        self.take(limits, moment, cost, account);
        refilled_from
    }

    fn idle_at(&self, _: u64) -> u64 {
        self.full_at.tick() + u64::from(self.parts > 0)
    }

    fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.full_at.tick());
        out.put_u64(self.parts);
    }

    fn decode(input: &mut &[u8], context: &DecodeContext<'_>) -> Result<Self, Error> {
        let full_at = Stamp::new(input.take_tick()?, context.epoch);
        Ok(Self { full_at, parts: input.take_u64()? })
    }
}

/// Far from what the shard gives to its next new key, which counts up by one.
const NEXT_EPOCH: u16 = 0x6A95;

impl Gcra {
    /// How far full lies ahead of now, in ticks times the rate: a unit is `window` of these.
    #[inline]
    fn ahead(&self, limits: &Limits, now: u64) -> u128 {
        let rate = rate(limits);
        let Some(ticks) = self.full_at.tick().checked_sub(now) else {
            return 0;
        };
        // If the limit has changed, parts that are worth more than a tick now are rounded to one: may deny
        // early, never over-admits.
        u128::from(ticks) * u128::from(rate) + u128::from(self.parts.min(rate))
    }

    #[inline]
    fn set_ahead(&mut self, now: u64, ahead: u128, rate: u64) {
        let ticks = u64::try_from(ahead / u128::from(rate)).unwrap_or(TICK_MAX);
        self.full_at.set_tick((now + ticks).min(TICK_MAX));
        self.parts = u64::try_from(ahead % u128::from(rate)).unwrap_or(0);
    }
}

/// Units that refill in a window: the limit. Under a limit of zero nothing can be taken, and what was
/// taken under other limits refills at one unit per window.
#[inline]
fn rate(limits: &Limits) -> u64 {
    limits.quota(0).limit.max(1)
}

/// Ticks until `ahead` has shrunk to a window, rounded up.
#[inline]
fn ticks_over(ahead: u128, limit: u64, window: u64) -> u64 {
    let over = ahead.saturating_sub(u128::from(limit) * u128::from(window));
    u64::try_from(over.div_ceil(u128::from(limit))).unwrap_or(NEVER - 1)
}

#[cfg(test)]
mod tests;
