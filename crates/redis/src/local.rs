//! A limiter in this process, for when Redis does not answer.

use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;

use slidegate::{Cost, Decision, Error, Key, Limiter, Policy, Quota, Receipt, Secret};
use tokio::time::Instant;

/// Judges in place of Redis with this process's share of every limit. Kept warm, so that it does
/// not begin with nothing; and after Redis is back it judges beside it for one window, because
/// Redis does not know what was let through meanwhile. It does so for the keys it let through, not
/// for those that Redis answered all the time: they have the whole limit.
#[derive(Debug)]
pub(crate) struct Local {
    limiter: Limiter,
    longest: Duration,
    start: Instant,
    /// Milliseconds after `start` until which both judge a key, in the place that its fingerprint
    /// chooses. Keys that share a place are judged together, to the safe side.
    judging_until: Box<[AtomicU64]>,
    secret: Secret,
}

/// Places for keys that both judge: 32 KiB.
const PLACES: u64 = 4096;

impl Local {
    /// With `nodes` processes, each gets its part of every limit, rounded down, but at least one.
    pub(crate) fn new(policy: &Policy, nodes: u64, memory_limit: usize) -> Result<Self, Error> {
        let share = |quota: &Quota| Quota::new((quota.limit() / nodes).max(1), quota.window());
        let quotas = policy.quotas().iter().map(share).collect::<Result<Vec<_>, _>>()?;
        let policy =
            Policy::builder(policy.name()).quotas(quotas).algorithm(policy.algorithm()).build()?;
        let longest = policy.quotas().iter().map(Quota::window).max().unwrap_or_default();
        Ok(Self {
            limiter: Limiter::builder(policy).memory_limit(memory_limit).build()?,
            longest,
            start: Instant::now(),
            judging_until: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
            secret: Secret::random(),
        })
    }

    /// Notes what Redis has allowed.
    pub(crate) fn keep_warm(&self, key: &[u8], cost: Cost) {
        // Beyond its own limit it need not know.
        let _ = self.limiter.check_cost(key, cost);
    }

    /// Decides in place of Redis.
    pub(crate) fn judge(&self, key: &[u8], cost: Cost, now: Instant) -> Decision {
        let until = self.millis(now + self.longest) + 1;
        self.judging_until(key).fetch_max(until, Ordering::Relaxed);
        self.limiter.check_cost(key, cost)
    }

    /// Takes back what [`judge`](Local::judge) let pass, because something else denied it.
    pub(crate) fn give_back(&self, receipt: Receipt) {
        self.limiter.refund(receipt);
    }

    /// The denial of a request while both judge; none if it may pass on to Redis.
    pub(crate) fn denies(&self, key: &[u8], cost: Cost, now: Instant) -> Option<Decision> {
        let judging = self.millis(now) < self.judging_until(key).load(Ordering::Relaxed);
        let decision = judging.then(|| self.limiter.peek(key, cost))?;
        (!decision.is_allowed()).then_some(decision)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn local(limit: u64, nodes: u64) -> Local {
        let policy = Policy::new("api", Quota::per_minute(limit).unwrap()).unwrap();
        Local::new(&policy, nodes, 4 << 20).unwrap()
    }

    #[test]
    fn has_this_process_share_of_the_limit() {
        for (limit, nodes, share) in [(10, 3, 3), (2, 5, 1), (7, 1, 7)] {
            let local = local(limit, nodes);
            let allowed = |_: &u64| local.judge(b"k", Cost::ONE, Instant::now()).is_allowed();
            assert_eq!((0..20).filter(allowed).count(), share, "{limit} over {nodes}");
        }
    }

    #[test]
    fn begins_with_what_was_allowed_before() {
        let local = local(10, 2);
        for _ in 0..4 {
            local.keep_warm(b"k", Cost::ONE);
        }
        assert!(local.judge(b"k", Cost::ONE, Instant::now()).is_allowed());
        assert!(!local.judge(b"k", Cost::ONE, Instant::now()).is_allowed());
    }

    #[test]
    fn judges_beside_redis_for_one_window_afterwards() {
        let (local, now) = (local(2, 2), Instant::now());
        local.keep_warm(b"k", Cost::ONE);
        assert!(local.denies(b"k", Cost::ONE, now).is_none(), "Redis was never away");
        assert!(!local.judge(b"k", Cost::ONE, now).is_allowed());
        let minute = Duration::from_secs(60);
        assert!(local.denies(b"k", Cost::ONE, now + minute).is_some());
        assert!(local.denies(b"k", Cost::ONE, now + minute + Duration::from_millis(2)).is_none());
        assert!(local.denies(b"other", Cost::ONE, now).is_none());
    }

    #[test]
    fn keys_that_redis_answered_all_the_time_have_the_whole_limit() {
        let (local, now) = (local(4, 4), Instant::now());
        local.keep_warm(b"calm", Cost::ONE);
        assert!(local.judge(b"k", Cost::ONE, now).is_allowed());
        assert!(local.denies(b"k", Cost::ONE, now).is_some());
        assert!(local.denies(b"calm", Cost::ONE, now).is_none());
    }
}
