//! A limiter in this process, for when Redis is unavailable.

use core::sync::atomic::{AtomicU64, Ordering};

use slidegate::{
    Cost, Decision, Error, Key, Limiter, Policy, Quota, Receipt, Secret, Tier, WithQuotas,
};
use tokio::time::Instant;

/// Decides instead of Redis with this process's share of every limit.
///
/// It also records what Redis allows, so that it does not start empty. Redis does not know what it
/// allowed, so a key that it decided is checked by both for one more window. Other keys have the
/// whole limit as soon as Redis is back.
#[derive(Debug)]
pub(crate) struct LocalFallback {
    limiter: Limiter,
    nodes: u64,
    start: Instant,
    /// Milliseconds after `start` until which both decide a key, indexed by its fingerprint. Keys
    /// that share an index are both checked twice, which may deny early.
    deciding_until: Box<[AtomicU64]>,
    secret: Secret,
}

/// Entries of `deciding_until`: 32 KiB.
const ENTRIES: u64 = 4096;

impl LocalFallback {
    /// Each of `nodes` processes gets its share of `quotas`, rounded down, but at least one unit.
    /// `quotas` are the policy's within the guard band.
    pub(crate) fn new(
        policy: &Policy,
        quotas: &[Quota],
        nodes: u64,
        memory_limit: usize,
    ) -> Result<Self, Error> {
        let quotas = shares(quotas, nodes)?;
        let policy =
            Policy::builder(policy.name()).quotas(quotas).algorithm(policy.algorithm()).build()?;
        Ok(Self {
            limiter: Limiter::builder(policy).memory_limit(memory_limit).build()?,
            nodes,
            start: Instant::now(),
            deciding_until: (0..ENTRIES).map(|_| AtomicU64::new(0)).collect(),
            secret: Secret::random(),
        })
    }

    /// Other quotas for some keys, shared by the processes as well.
    pub(crate) fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.limiter.tier(&shares(quotas, self.nodes)?)
    }

    /// Records what Redis has allowed.
    pub(crate) fn keep_warm(&self, key: &[u8], tier: Option<&Tier>, cost: Cost) {
        // Beyond its own limit it need not know.
        let _ = self.check(key, tier, cost);
    }

    /// Decides instead of Redis.
    pub(crate) fn decide(
        &self,
        key: &[u8],
        tier: Option<&Tier>,
        cost: Cost,
        now: Instant,
    ) -> Decision {
        self.decide_for_a_window(key, tier, now);
        self.check(key, tier, cost)
    }

    /// Whether [`decide`](LocalFallback::decide) issued a receipt.
    pub(crate) fn has_issued(&self, key: &[u8], receipt: &Receipt) -> bool {
        self.limiter.has_issued(key, receipt)
    }

    /// Gives back units of [`decide`](LocalFallback::decide). Returns their number.
    pub(crate) fn give_back(&self, receipt: Receipt, tier: Option<&Tier>) -> u64 {
        self.with(tier).refund(receipt)
    }

    /// Corrects what [`decide`](LocalFallback::decide) took to the real cost. Returns the units charged in
    /// total.
    pub(crate) fn settle(
        &self,
        key: &[u8],
        receipt: Receipt,
        actual: u64,
        tier: Option<&Tier>,
        now: Instant,
    ) -> u64 {
        // Redis does not know of debt either.
        self.decide_for_a_window(key, tier, now);
        self.with(tier).settle(receipt, actual)
    }

    /// Removes a key. Returns `true` if it existed.
    pub(crate) fn reset(&self, key: &[u8]) -> bool {
        self.limiter.reset(key)
    }

    /// The denial of a check while both decide. Returns `None` if Redis decides.
    pub(crate) fn denial(
        &self,
        key: &[u8],
        tier: Option<&Tier>,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        let both = self.millis(now) < self.deciding_until(key).load(Ordering::Relaxed);
        let decision = both.then(|| self.with(tier).peek_cost(key, cost))?;
        (!decision.is_allowed()).then_some(decision)
    }

    fn check(&self, key: &[u8], tier: Option<&Tier>, cost: Cost) -> Decision {
        self.with(tier).check_cost(key, cost)
    }

    fn with<'a>(&'a self, tier: Option<&'a Tier>) -> WithQuotas<'a> {
        // Tiers are created by `Local::tier` only, so the limiter accepts them.
        self.limiter.with(tier).unwrap_or_else(|_| WithQuotas::from(&self.limiter))
    }

    /// For as long as what is taken now counts against the key's quotas.
    fn decide_for_a_window(&self, key: &[u8], tier: Option<&Tier>, now: Instant) {
        let quotas = tier.map_or(self.limiter.policy().quotas(), Tier::quotas);
        let longest = quotas.iter().map(Quota::window).max().unwrap_or_default();
        let until = self.millis(now + longest) + 1;
        self.deciding_until(key).fetch_max(until, Ordering::Relaxed);
    }

    fn deciding_until(&self, key: &[u8]) -> &AtomicU64 {
        let index = key.fingerprint(&self.secret) % ENTRIES;
        &self.deciding_until[usize::try_from(index).unwrap_or(0)]
    }

    fn millis(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.start);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// One process's share of every limit: at least one unit, unless the limit is zero.
fn shares(quotas: &[Quota], nodes: u64) -> Result<Vec<Quota>, Error> {
    let share = |quota: &Quota| {
        let limit = quota.limit();
        Quota::new((limit / nodes).max(limit.min(1)), quota.window())
    };
    quotas.iter().map(share).collect()
}

#[cfg(test)]
mod tests;
