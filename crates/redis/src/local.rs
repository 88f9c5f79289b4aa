//! A limiter in this process, for when Redis does not answer.

use core::sync::atomic::{AtomicU64, Ordering};

use slidegate::{
    Cost, Decision, Error, Key, Limiter, Policy, Quota, Receipt, Secret, Tier, WithQuotas,
};
use tokio::time::Instant;

/// Judges in place of Redis with this process's share of every limit. Kept warm, so that it does
/// not begin with nothing; and after Redis is back it judges beside it for one window, because
/// Redis does not know what was let through meanwhile. It does so for the keys it let through, not
/// for those that Redis answered all the time: they have the whole limit.
#[derive(Debug)]
pub(crate) struct Local {
    limiter: Limiter,
    nodes: u64,
    start: Instant,
    /// Milliseconds after `start` until which both judge a key, in the place that its fingerprint
    /// chooses. Keys that share a place are judged together, to the safe side.
    judging_until: Box<[AtomicU64]>,
    secret: Secret,
}

/// Places for keys that both judge: 32 KiB.
const PLACES: u64 = 4096;

impl Local {
    /// Of `quotas`, which are the policy's as far as they are used, each of `nodes` processes gets
    /// its part, rounded down, but at least one.
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
            judging_until: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            secret: Secret::random(),
        })
    }

    /// Other quotas for some keys, of which each process gets its part as well.
    pub(crate) fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.limiter.tier(&shares(quotas, self.nodes)?)
    }

    /// Notes what Redis has allowed.
    pub(crate) fn keep_warm(&self, key: &[u8], tier: Option<&Tier>, cost: Cost) {
        // Beyond its own limit it need not know.
        let _ = self.check(key, tier, cost);
    }

    /// Decides in place of Redis.
    pub(crate) fn judge(
        &self,
        key: &[u8],
        tier: Option<&Tier>,
        cost: Cost,
        now: Instant,
    ) -> Decision {
        self.judge_for_a_window(key, tier, now);
        self.check(key, tier, cost)
    }

    /// Whether a receipt is of what [`judge`](Local::judge) let pass.
    pub(crate) fn has_issued(&self, key: &[u8], receipt: &Receipt) -> bool {
        self.limiter.has_issued(key, receipt)
    }

    /// Takes back what [`judge`](Local::judge) let pass; how many units there were.
    pub(crate) fn give_back(&self, receipt: Receipt, tier: Option<&Tier>) -> u64 {
        self.with(tier).refund(receipt)
    }

    /// Corrects what [`judge`](Local::judge) let pass to the real cost; the units charged in all.
    pub(crate) fn settle(
        &self,
        key: &[u8],
        receipt: Receipt,
        actual: u64,
        tier: Option<&Tier>,
        now: Instant,
    ) -> u64 {
        // Redis does not know of debt either.
        self.judge_for_a_window(key, tier, now);
        self.with(tier).settle(receipt, actual)
    }

    /// Forgets a key; whether there was anything to forget.
    pub(crate) fn reset(&self, key: &[u8]) -> bool {
        self.limiter.reset(key)
    }

    /// The denial of a request while both judge; none if it may pass on to Redis.
    pub(crate) fn denies(
        &self,
        key: &[u8],
        tier: Option<&Tier>,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        let judging = self.millis(now) < self.judging_until(key).load(Ordering::Relaxed);
        let decision = judging.then(|| self.with(tier).peek(key, cost))?;
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
    fn judge_for_a_window(&self, key: &[u8], tier: Option<&Tier>, now: Instant) {
        let quotas = tier.map_or(self.limiter.policy().quotas(), Tier::quotas);
        let longest = quotas.iter().map(Quota::window).max().unwrap_or_default();
        let until = self.millis(now + longest) + 1;
        self.judging_until(key).fetch_max(until, Ordering::Relaxed);
    }

    fn judging_until(&self, key: &[u8]) -> &AtomicU64 {
        let place = key.fingerprint(&self.secret) % PLACES;
        &self.judging_until[usize::try_from(place).unwrap_or(0)]
    }

    fn millis(&self, at: Instant) -> u64 {
        let passed = at.saturating_duration_since(self.start);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX - 1)
    }
}

/// One process's part of every limit.
fn shares(quotas: &[Quota], nodes: u64) -> Result<Vec<Quota>, Error> {
    let share = |quota: &Quota| Quota::new((quota.limit() / nodes).max(1), quota.window());
    quotas.iter().map(share).collect()
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    fn local(limit: u64, nodes: u64) -> Local {
        let policy = Policy::new("api", Quota::per_minute(limit).unwrap()).unwrap();
        Local::new(&policy, policy.quotas(), nodes, 4 << 20).unwrap()
    }

    #[test]
    fn has_this_process_share_of_the_limit() {
        for (limit, nodes, share) in [(10, 3, 3), (2, 5, 1), (7, 1, 7)] {
            let local = local(limit, nodes);
            let allowed = |_: &u64| local.judge(b"k", None, Cost::ONE, Instant::now()).is_allowed();
            assert_eq!((0..20).filter(allowed).count(), share, "{limit} over {nodes}");
        }
    }

    #[test]
    fn begins_with_what_was_allowed_before() {
        let local = local(10, 2);
        for _ in 0..4 {
            local.keep_warm(b"k", None, Cost::ONE);
        }
        assert!(local.judge(b"k", None, Cost::ONE, Instant::now()).is_allowed());
        assert!(!local.judge(b"k", None, Cost::ONE, Instant::now()).is_allowed());
    }

    #[test]
    fn judges_beside_redis_for_one_window_afterwards() {
        let (local, now) = (local(2, 2), Instant::now());
        local.keep_warm(b"k", None, Cost::ONE);
        assert!(local.denies(b"k", None, Cost::ONE, now).is_none(), "Redis was never away");
        assert!(!local.judge(b"k", None, Cost::ONE, now).is_allowed());
        let minute = Duration::from_secs(60);
        assert!(local.denies(b"k", None, Cost::ONE, now + minute).is_some());
        assert!(
            local.denies(b"k", None, Cost::ONE, now + minute + Duration::from_millis(2)).is_none()
        );
        assert!(local.denies(b"other", None, Cost::ONE, now).is_none());
    }

    #[test]
    fn keys_that_redis_answered_all_the_time_have_the_whole_limit() {
        let (local, now) = (local(4, 4), Instant::now());
        local.keep_warm(b"calm", None, Cost::ONE);
        assert!(local.judge(b"k", None, Cost::ONE, now).is_allowed());
        assert!(local.denies(b"k", None, Cost::ONE, now).is_some());
        assert!(local.denies(b"calm", None, Cost::ONE, now).is_none());
    }
}
