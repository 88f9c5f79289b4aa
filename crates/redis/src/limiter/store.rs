//! The limiter on Redis as a store.

use core::any::Any;
use core::time::Duration;

use slidegate::{
    Cost, Decision, DegradedReason, Error, ErrorKind, Event, Policy, Quota, Receipt, SleepFn, Stat,
    StatValue, Store, StoreAsk, StoreFuture, StoreGroup, StoreResult, Target, Tier, Usage,
};

use super::{RedisAsk, RedisLimiter, RedisStats, RedisWithQuotas, check_all};
use crate::inspect::{StoreUsage, Warning};
use crate::servers::BreakerState;

/// Calls a method of a limiter with its quotas, or returns the error of a foreign tier.
macro_rules! with {
    ($limiter:expr, $target:expr, $with:ident => $call:expr) => {
        match $limiter.with($target.quotas) {
            Ok($with) => StoreFuture::pending(async move { $call.await }),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    };
}

impl Store for RedisLimiter {
    fn policy(&self) -> &Policy {
        self.policy()
    }

    fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.tier(quotas)
    }

    fn check<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        let RedisWithQuotas { limiter, quotas } = match self.with(target.quotas) {
            Ok(with) => with,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        // A denial from the deny cache needs no future.
        if let Some(denial) = limiter.inner.check_cached(target.key, quotas.get(), cost) {
            return StoreFuture::ready(Ok(denial));
        }
        StoreFuture::pending(async move {
            Ok(limiter.inner.check_uncached(target.key, quotas.get(), cost).await)
        })
    }

    fn check_many<'a>(
        &'a self,
        targets: &'a [Target<'a>],
        cost: Cost,
    ) -> StoreResult<'a, Vec<Decision>> {
        let with: Result<Vec<_>, Error> =
            targets.iter().map(|target| self.with(target.quotas)).collect();
        let with = match with {
            Ok(with) => with,
            Err(error) => return StoreFuture::ready(Err(error)),
        };
        StoreFuture::pending(async move {
            let keys = targets.iter().zip(&with).map(|(target, with)| (target.key, with.tier()));
            let keys: Vec<_> = keys.collect();
            Ok(self.inner.check_many(&keys, cost).await)
        })
    }

    fn check_at_most<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        with!(self, target, limiter => async { Ok(limiter.check_at_most(target.key, cost).await) })
    }

    fn peek<'a>(&'a self, target: Target<'a>, cost: Cost) -> StoreResult<'a, Decision> {
        with!(self, target, limiter => limiter.peek_cost(target.key, cost))
    }

    fn refund<'a>(&'a self, target: Target<'a>, receipt: Receipt) -> StoreResult<'a, u64> {
        with!(self, target, limiter => limiter.refund(target.key, receipt))
    }

    fn settle<'a>(
        &'a self,
        target: Target<'a>,
        receipt: Receipt,
        actual: u64,
    ) -> StoreResult<'a, u64> {
        with!(self, target, limiter => limiter.settle(target.key, receipt, actual))
    }

    fn charge<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        with!(self, target, limiter => limiter.charge(target.key, units))
    }

    fn forgive<'a>(&'a self, target: Target<'a>, units: u64) -> StoreResult<'a, u64> {
        with!(self, target, limiter => limiter.forgive(target.key, units))
    }

    fn usage<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Usage> {
        with!(self, target, limiter => limiter.usage(target.key))
    }

    fn history<'a>(&'a self, target: Target<'a>) -> StoreResult<'a, Vec<Event>> {
        with!(self, target, limiter => limiter.history(target.key))
    }

    fn reset<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        StoreFuture::pending(self.reset(key))
    }

    fn block<'a>(&'a self, key: &'a [u8], time: Duration) -> StoreResult<'a, ()> {
        StoreFuture::pending(self.block(key, time))
    }

    fn unblock<'a>(&'a self, key: &'a [u8]) -> StoreResult<'a, bool> {
        StoreFuture::pending(self.unblock(key))
    }

    /// Redis finds the units by the key, so the fingerprint does not matter.
    fn receipt(&self, _: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        Receipt::new(0, units, tick, epoch)
    }

    fn group(&self) -> StoreGroup {
        StoreGroup::of(&*self.inner.redis.shared)
    }

    fn check_all<'a>(&'a self, asks: &'a [StoreAsk<'a>]) -> StoreResult<'a, Vec<Decision>> {
        let ask = |ask: &StoreAsk<'a>| match ask.store.as_any().downcast_ref::<Self>() {
            Some(limiter) => {
                let Target { key, quotas } = ask.target;
                Ok(RedisAsk::new(limiter.with(quotas)?, key, ask.cost))
            }
            None => {
                let message = format!("policy {:?} is not in Redis", ask.store.policy().name());
                Err(Error::new(ErrorKind::Setting, message))
            }
        };
        let asks: Result<Vec<RedisAsk<'_>>, Error> = asks.iter().map(ask).collect();
        match asks {
            Ok(asks) => StoreFuture::pending(async move { check_all(&asks).await }),
            Err(error) => StoreFuture::ready(Err(error)),
        }
    }

    fn waits_in_order(&self) -> bool {
        true
    }

    fn wait<'a>(
        &'a self,
        target: Target<'a>,
        cost: Cost,
        timeout: Duration,
        sleep: &'a SleepFn,
    ) -> StoreResult<'a, Decision> {
        with!(self, target, limiter => limiter.wait_with(target.key, cost, timeout, sleep))
    }

    fn applies_failure_mode(&self) -> bool {
        true
    }

    fn is_available(&self) -> bool {
        let servers = &self.inner.redis.shared.servers;
        servers.breaker_state() != BreakerState::Open && servers.is_reachable()
    }

    fn warnings(&self) -> StoreResult<'_, Vec<String>> {
        StoreFuture::pending(async move {
            let redis = &self.inner.redis;
            let warnings = redis.warnings().await?;
            let of = |kind: &str| warnings.iter().filter(|warning| warning.kind() == kind).count();
            *redis.shared.warnings.lock() = Warning::KINDS.map(|kind| of(kind) as u64);
            Ok(warnings.iter().map(ToString::to_string).collect())
        })
    }

    fn refresh_stats(&self) -> StoreResult<'_, ()> {
        StoreFuture::pending(async move {
            let redis = &self.inner.redis;
            let usage = redis.usage().await;
            *redis.shared.usage.lock() = usage.as_ref().ok().copied();
            // A user that may not do this has no such metrics.
            if let (Ok(usage), Ok(sample)) = (&usage, redis.sample(SAMPLES).await) {
                redis.shared.sample.lock().add(&sample, usage.keys);
            }
            usage.map(|_| ())
        })
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn stats(&self) -> Vec<Stat> {
        let stats = self.stats();
        let breaker = Stat::shared(
            "rate_limit_redis_breaker_state",
            "Circuit breaker: 0 closed, 1 half-open, 2 open.",
            StatValue::Gauge(match stats.breaker {
                BreakerState::Closed => 0,
                BreakerState::HalfOpen => 1,
                BreakerState::Open => 2,
            }),
        );
        let step = Stat::shared(
            "rate_limit_redis_small_clock_step_max_seconds",
            "Largest of the smaller steps of a server's clock.",
            StatValue::Time(stats.small_clock_step_max),
        );
        let waiters = Stat::new(
            "rate_limit_waiters",
            "Callers waiting.",
            StatValue::Gauge(stats.waiters as u64),
        );
        let own = own_counts(&stats)
            .map(|(name, help, count)| Stat::new(name, help, StatValue::Count(count)));
        let shared = shared_counts(&stats)
            .map(|(name, help, count)| Stat::shared(name, help, StatValue::Count(count)));
        let failures = DegradedReason::ALL.map(|reason| {
            let count = StatValue::Count(stats.failures(reason));
            let help = "Calls and connections that failed.";
            Stat::shared("rate_limit_redis_failures_total", help, count)
                .with_label("reason", reason.name())
        });
        let servers = &self.inner.redis.shared;
        let usage = *servers.usage.lock();
        let usage = usage.into_iter().flat_map(usage_stats);
        let warnings = *servers.warnings.lock();
        let warnings = Warning::KINDS.into_iter().zip(warnings).map(|(kind, count)| {
            let help = "Problems of the servers that an operator should fix.";
            Stat::shared("rate_limit_store_warnings", help, StatValue::Gauge(count))
                .with_label("kind", kind)
        });
        let sampled = servers.sample.lock().estimate(&self.inner.stored_as);
        let sampled = sampled.into_iter().flat_map(sampled_stats);
        let gauges = [breaker, step, waiters];
        let shared = shared.into_iter().chain(failures).chain(usage).chain(warnings);
        own.into_iter().chain(sampled).chain(gauges).chain(shared).collect()
    }
}

/// Keys that are sampled on each server, each time that its metrics are refreshed.
const SAMPLES: usize = 32;

/// What random keys show about a policy.
fn sampled_stats((keys, bytes): (u64, u64)) -> [Stat; 2] {
    [
        ("rate_limit_redis_sampled_keys", "Keys of the policy, estimated from a sample.", keys),
        ("rate_limit_redis_sampled_bytes", "Bytes of these keys, estimated likewise.", bytes),
    ]
    .map(|(name, help, value)| Stat::new(name, help, StatValue::Gauge(value)))
}

/// What the servers report about themselves.
fn usage_stats(usage: StoreUsage) -> [Stat; 6] {
    let StoreUsage { bytes, dataset_bytes, bytes_max, keys, evicted, evicting } = usage;
    [
        ("rate_limit_store_memory_bytes", "Bytes in use.", StatValue::Gauge(bytes)),
        (
            "rate_limit_store_dataset_bytes",
            "Of these, bytes of keys and values.",
            StatValue::Gauge(dataset_bytes),
        ),
        (
            "rate_limit_store_memory_limit_bytes",
            "Bytes that may be used; 0 without a bound.",
            StatValue::Gauge(bytes_max),
        ),
        ("rate_limit_store_keys", "Keys on the servers.", StatValue::Gauge(keys)),
        ("rate_limit_store_evicted_total", "Keys evicted.", StatValue::Count(evicted)),
        (
            "rate_limit_store_evicting_servers",
            "Servers that evict keys that still count when they are full.",
            StatValue::Gauge(evicting),
        ),
    ]
    .map(|(name, help, value)| Stat::shared(name, help, value))
}

/// A metric's name, its help text and its value.
type Count = (&'static str, &'static str, u64);

/// Counters of one policy.
fn own_counts(stats: &RedisStats) -> [Count; 11] {
    [
        ("rate_limit_redis_decisions_total", "Checks decided.", stats.decisions),
        ("rate_limit_redis_deny_cache_total", "Denials by the deny cache.", stats.denied_here),
        ("rate_limit_redis_leased_total", "Checks allowed by a lease.", stats.leased_here),
        ("rate_limit_redis_degraded_total", "Checks by the failure mode.", stats.degraded),
        ("rate_limit_redis_unknown_total", "Of these, perhaps counted by Redis.", stats.unknown),
        ("rate_limit_redis_leases_total", "Leases taken.", stats.leases),
        (
            "rate_limit_redis_lease_units_returned_total",
            "Leased units that were returned unused.",
            stats.lease_units_returned,
        ),
        (
            "rate_limit_redis_lease_units_lost_total",
            "Leased units that could not be returned.",
            stats.lease_units_lost,
        ),
        (
            "rate_limit_redis_lost_keys_total",
            "Keys that were denied and then empty before their units could expire.",
            stats.lost_keys,
        ),
        (
            "rate_limit_redis_local_units_reported_total",
            "Units that the local fallback admitted and reported to Redis.",
            stats.local_units_reported,
        ),
        (
            "rate_limit_redis_local_units_unreported_total",
            "Units that the local fallback admitted and could not report.",
            stats.local_units_unreported,
        ),
    ]
}

/// Counters that all policies on the same servers share.
fn shared_counts(stats: &RedisStats) -> [Count; 10] {
    [
        (
            "rate_limit_redis_breaker_opened_total",
            "Times that a circuit breaker opened.",
            stats.breaker_opened,
        ),
        ("rate_limit_redis_calls_total", "Commands sent.", stats.calls),
        ("rate_limit_redis_timeouts_total", "Commands that timed out.", stats.timeouts),
        ("rate_limit_redis_errors_total", "Connections that broke.", stats.errors),
        ("rate_limit_redis_crowded_total", "Calls refused: too many in flight.", stats.crowded),
        ("rate_limit_redis_connections_total", "Connections opened.", stats.connections),
        (
            "rate_limit_redis_clock_steps_total",
            "Steps of a server's clock that opened a breaker.",
            stats.clock_steps,
        ),
        (
            "rate_limit_redis_small_clock_steps_total",
            "Smaller steps of a server's clock, from 5 ms on.",
            stats.small_clock_steps,
        ),
        ("rate_limit_redis_scripts_sent_total", "Scripts sent as text.", stats.scripts_sent),
        ("rate_limit_redis_redirects_total", "Redirections by a cluster.", stats.redirects),
    ]
}
