//! A bucket that leaks evenly.

use super::{Model, TickQuota};

/// A bucket of `limit` units from which `limit` units leak in every window, evenly.
///
/// This is another form of the generic cell rate algorithm: GCRA stores the time at which the
/// bucket will be empty, and this model stores its content. A unit is divided into as many parts as
/// the window has ticks, so that every tick leaks `limit` whole parts and nothing is rounded.
#[derive(Debug, Clone, Default)]
pub struct GcraModel(Vec<Bucket>);

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    parts: u128,
    at: u64,
}

/// The units that leak per window. With a limit of zero, the bucket still empties, at one unit per
/// window.
fn rate(quota: TickQuota) -> u128 {
    u128::from(quota.limit.max(1))
}

impl GcraModel {
    fn parts(&self, place: usize, quota: TickQuota, now: u64) -> u128 {
        let bucket = self.0.get(place).copied().unwrap_or_default();
        let leaked = u128::from(now.saturating_sub(bucket.at)) * rate(quota);
        bucket.parts.saturating_sub(leaked)
    }

    fn fill(&mut self, place: usize, now: u64, parts: u128) {
        if self.0.len() <= place {
            self.0.resize(place + 1, Bucket::default());
        }
        self.0[place] = Bucket { parts, at: now };
    }
}

impl Model for GcraModel {
    /// A partly leaked unit still counts in full.
    fn counted(&self, place: usize, quota: TickQuota, now: u64) -> u128 {
        self.parts(place, quota, now).div_ceil(u128::from(quota.window))
    }

    fn fits(&self, place: usize, quota: TickQuota, now: u64, cost: u64) -> bool {
        let unit = u128::from(quota.window);
        self.parts(place, quota, now) + u128::from(cost) * unit <= u128::from(quota.limit) * unit
    }

    fn record(&mut self, quotas: &[TickQuota], at: u64, units: u64) {
        for (place, quota) in quotas.iter().enumerate() {
            let more = u128::from(units) * u128::from(quota.window);
            self.fill(place, at, self.parts(place, *quota, at) + more);
        }
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        let mut given = 0;
        for (place, quota) in quotas.iter().enumerate() {
            // Units that leaked since, if the bucket had been empty before, are not refunded.
            let leaked = u128::from(now.saturating_sub(at)) * rate(*quota);
            let parts = self.parts(place, *quota, now);
            let taken = u128::from(units) * u128::from(quota.window);
            let less = parts.min(taken.saturating_sub(leaked));
            let whole = less.div_ceil(u128::from(quota.window));
            given = given.max(u64::try_from(whole).unwrap_or(units));
            self.fill(place, now, parts - less);
        }
        given
    }
    /// An empty bucket has no record of earlier units: refunding them would refund units taken
    /// later.
    fn is_as_new(&self, quotas: &[TickQuota], now: u64) -> bool {
        let mut quotas = quotas.iter().enumerate();
        quotas.all(|(place, quota)| self.parts(place, *quota, now) == 0)
    }
}
