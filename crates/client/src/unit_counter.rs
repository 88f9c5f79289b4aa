//! Counts units in a sliding window with Slidegate's log. Time is an argument.

use core::time::Duration;

use slidegate::{
    Algorithm, Cost, Error, Limiter, ManualClock, Policy, Quota, Receipt, Tier, WithQuotas,
};

/// Counts units in a sliding window.
///
/// The limiter's clock returns the time that the last caller passed.
#[derive(Debug)]
pub(crate) struct UnitCounter {
    limiter: Limiter,
    clock: ManualClock,
    quota: Quota,
    tier: Tier,
}

/// A log of this size merges neighboring entries, and then denies early by at most 0.3 % of a
/// window.
const BYTES_MAX: u32 = 8192;

/// The minimum memory limit of a limiter. It uses less.
const MEMORY_LIMIT: usize = 64 * 1024;

/// The only key of the limiter.
const KEY: &str = "own";

impl UnitCounter {
    pub(crate) fn new(quota: Quota) -> Result<Self, Error> {
        let clock = ManualClock::new(Duration::ZERO);
        let algorithm = Algorithm::LogCapped { bytes_max: BYTES_MAX };
        let policy = Policy::builder("pacing").quota(quota).algorithm(algorithm).build()?;
        let builder = Limiter::builder(policy).clock(clock.clone());
        let limiter = builder.shards(1).memory_limit(MEMORY_LIMIT).build()?;
        let tier = limiter.tier(&[quota])?;
        Ok(Self { limiter, clock, quota, tier })
    }

    /// Changes the quota. Recorded units stay.
    pub(crate) fn change(&mut self, quota: Quota) {
        if quota == self.quota {
            return;
        }
        // One quota always fits a policy with one quota.
        if let Ok(tier) = self.limiter.tier(&[quota]) {
            self.tier = tier;
            self.quota = quota;
        }
    }

    pub(crate) fn quota(&self) -> Quota {
        self.quota
    }

    fn limiter(&self) -> WithQuotas<'_> {
        // This limiter created the tier, so it accepts it.
        self.limiter.with(&self.tier).unwrap_or_else(|_| WithQuotas::from(&self.limiter))
    }

    /// Takes up to `units`, as many as fit. Returns the receipt to refund them.
    pub(crate) fn take(&self, units: u64, now: Duration) -> Option<Receipt> {
        let room = self.quota.limit().saturating_sub(self.used(now));
        let cost = Cost::new(units.min(room)).ok()?;
        self.limiter().check_cost(KEY, cost).into_receipt()
    }

    pub(crate) fn give_back(&self, receipt: Receipt, now: Duration) {
        self.clock.set(now);
        self.limiter.refund(receipt);
    }

    /// Returns the units that count at `now`.
    pub(crate) fn used(&self, now: Duration) -> u64 {
        self.clock.set(now);
        let decision = self.limiter().peek(KEY);
        self.quota.limit().saturating_sub(decision.remaining())
    }

    /// Returns the time until the last of `units` fits, if each is sent as early as possible, or
    /// zero if all fit now. More units than the limit take further windows.
    pub(crate) fn wait(&self, units: u64, now: Duration) -> Duration {
        let limit = self.quota.limit();
        let windows = units.saturating_sub(1) / limit;
        let Ok(rest) = Cost::new(units - windows * limit) else { return Duration::ZERO };
        self.clock.set(now);
        let decision = self.limiter().peek_cost(KEY, rest);
        let first = decision.retry_after().duration().unwrap_or(self.quota.window());
        let windows = u32::try_from(windows).unwrap_or(u32::MAX);
        first.saturating_add(self.quota.window().saturating_mul(windows))
    }
}

#[cfg(test)]
mod tests;
