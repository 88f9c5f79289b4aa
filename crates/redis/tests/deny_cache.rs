//! Cached denials: never one that Redis would have allowed, never for longer than configured, and
//! in bounded memory.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{patient, policy, runtime};
use slidegate::{Cost, Decision, Quota, RetryAfter};
use slidegate_redis::{RedisLimiter, RedisLimiterBuilder};
use slidegate_testkit::server::{PATIENCE, Proxy, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until};

const MS: Duration = Duration::from_millis(1);
const MINUTE_MS: u64 = 60_000;
const HOUR_MS: u64 = 60 * MINUTE_MS;

/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(1);

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

/// Returns a limiter with a separate connection, so that its calls are counted separately.
fn limiter(url: &str, limit: u64, window_ms: u64) -> RedisLimiterBuilder {
    patient(url).build().unwrap().limiter(policy("deny", limit, window_ms))
}

/// Returns a limiter that calls Redis for every check.
fn twin(url: &str, limit: u64, window_ms: u64) -> RedisLimiterBuilder {
    limiter(url, limit, window_ms).deny_cache(0)
}

/// Returns `true` if a decision was made without calling Redis.
async fn from_memory(limiter: &RedisLimiter, key: &str, cost: Cost) -> (Decision, bool) {
    let before = limiter.stats().denied_here;
    let decision = limiter.check_cost(key, cost).await;
    (decision, limiter.stats().denied_here > before)
}

// The cache must end at the time when units are free, not at the next tick: with a tick of 20 ms it
// would deny for up to 20 ms what Redis allows. If Redis allows before and after a cached denial,
// it would have allowed in between.
#[test]
fn no_denial_from_memory_that_redis_would_have_allowed() {
    let server = RedisServer::start().unwrap();
    for (tick, limit, window_ms) in [(MS, 50, 250), (20 * MS, 10, 200)] {
        runtime().block_on(async {
            let cached = limiter(&server.url(), limit, window_ms).tick(tick).deny_cache_cap(None);
            let (cached, key) = (cached.build().unwrap(), format!("flood {tick:?}"));
            let twin = twin(&server.url(), limit, window_ms).tick(tick).build().unwrap();
            let (mut allowed, mut repeated, mut wrong) = (0_u64, 0_u64, 0_u64);
            while allowed < 10 * limit || repeated < 2000 {
                let before = twin.peek(&key).await.unwrap();
                let (decision, repeats) = from_memory(&cached, &key, Cost::ONE).await;
                allowed += u64::from(decision.is_allowed());
                repeated += u64::from(repeats);
                if repeats && before.is_allowed() {
                    wrong += u64::from(twin.peek(&key).await.unwrap().is_allowed());
                }
            }
            let stats = cached.stats();
            println!(
                "tick {tick:?}: {allowed} allowed, {repeated} denied from memory, {} calls",
                stats.calls
            );
            assert_eq!(wrong, 0, "tick {tick:?}: of {repeated} denials from memory");
            assert!(
                allowed > 3 * limit && repeated > 500,
                "{allowed} allowed, {repeated} repeated"
            );
            // One call for every allowed check, and about one for every wait.
            assert!(stats.calls <= 2 * allowed + 10, "{stats:?}");
        });
    }
}

// A flood from many tasks: while the key is at its limit, no task calls Redis twice.
#[test]
fn a_flood_on_a_key_at_its_limit_calls_redis_once() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 1, MINUTE_MS).deny_cache_cap(None).build().unwrap();
        assert!(limiter.check("k").await.is_allowed());
        assert!(!limiter.check("k").await.is_allowed());
        let calls = limiter.stats().calls;
        let limiter = Arc::new(limiter);
        let mut tasks = JoinSet::new();
        for _ in 0..100 {
            let limiter = Arc::clone(&limiter);
            tasks.spawn(async move {
                for _ in 0..100 {
                    assert!(!limiter.check("k").await.is_allowed());
                }
            });
        }
        tasks.join_all().await;
        assert_eq!(limiter.stats().calls, calls);
        assert_eq!(limiter.stats().denied_here, 10_000);
    });
}

/// Checks until allowed. Returns how long that took.
async fn until_allowed(limiter: &RedisLimiter, key: &str) -> Duration {
    let start = Instant::now();
    while !limiter.check(key).await.is_allowed() {
        assert!(start.elapsed() < PATIENCE, "still denied");
        sleep(MS).await;
    }
    start.elapsed()
}

// Refunds of other processes must take effect after the cap, and those of this process immediately.
#[test]
fn refunds_take_effect_within_the_cap() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let cap = 100 * MS;
        let here = limiter(&server.url(), 2, MINUTE_MS).build().unwrap();
        let there = twin(&server.url(), 2, MINUTE_MS).build().unwrap();
        let theirs = there.check("k").await.into_receipt().unwrap();
        let ours = here.check("k").await.into_receipt().unwrap();
        assert!(!here.check("k").await.is_allowed());

        assert_eq!(there.refund("k", theirs).await.unwrap(), 1);
        let waited = until_allowed(&here, "k").await;
        println!("a refund by another process was seen after {waited:?}");
        assert!(waited < cap + SLACK);

        assert!(!here.check("k").await.is_allowed());
        assert!(there.reset("k").await.unwrap());
        let waited = until_allowed(&here, "k").await;
        println!("a reset by another process was seen after {waited:?}");
        assert!(waited < cap + SLACK);
        assert_eq!(here.refund("k", ours).await.unwrap(), 0, "void since the reset");

        let ours = here.check("k").await.into_receipt().unwrap();
        assert!(!here.check("k").await.is_allowed());
        assert_eq!(here.refund("k", ours).await.unwrap(), 1);
        assert!(here.check("k").await.is_allowed(), "our own refund");
        assert!(!here.check("k").await.is_allowed());
        assert!(here.reset("k").await.unwrap());
        assert!(here.check("k").await.is_allowed(), "our own reset");
    });
}

// The daemon reloads its policies: the limiter of the new one must not be affected by the old one.
#[test]
fn a_raised_limit_applies_immediately_in_its_process() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let low = limiter(&server.url(), 1, MINUTE_MS).deny_cache_cap(None).build().unwrap();
        assert!(low.check("k").await.is_allowed());
        assert!(!low.check("k").await.is_allowed());
        let high = limiter(&server.url(), 2, MINUTE_MS).deny_cache_cap(None).build().unwrap();
        assert!(high.check("k").await.is_allowed());
        assert!(!high.check("k").await.is_allowed());
        assert!(!low.check("k").await.is_allowed());
    });
}

#[test]
fn a_cached_denial_covers_larger_costs_only() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 10, MINUTE_MS).deny_cache_cap(None).build().unwrap();
        assert!(limiter.check_cost("k", cost(7)).await.is_allowed());
        for (units, allowed, repeats) in [
            (5, false, false),
            (5, false, true),
            (6, false, true),
            (10, false, true),
            (4, false, false),
            // Less than was denied, and it fits.
            (2, true, false),
            (2, false, false),
            (1, true, false),
            // Nothing is left: the lowest cost covers all.
            (1, false, false),
            (1, false, true),
            (2, false, true),
            (10, false, true),
        ] {
            let (decision, from_memory) = from_memory(&limiter, "k", cost(units)).await;
            assert_eq!((decision.is_allowed(), from_memory), (allowed, repeats), "cost {units}");
            assert_eq!(decision.retry_after() == RetryAfter::Now, allowed, "cost {units}");
            assert_ne!(decision.retry_after(), RetryAfter::Never, "cost {units}");
        }
        assert_eq!(limiter.check_cost("k", cost(11)).await.retry_after(), RetryAfter::Never);
    });
}

// A denial with one tier's quotas does not apply to another's; refunds apply to all.
#[test]
fn tiers_do_not_affect_each_other() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 1, MINUTE_MS).deny_cache_cap(None).build().unwrap();
        let minute = Duration::from_millis(MINUTE_MS);
        let tier = |limit| limiter.tier(&[Quota::new(limit, minute).unwrap()]).unwrap();
        let (silver, gold) = (tier(2), tier(3));
        assert!(limiter.check("k").await.is_allowed());
        assert!(!limiter.check("k").await.is_allowed());
        assert!(limiter.with(&silver).unwrap().check("k").await.is_allowed());
        assert!(!limiter.with(&silver).unwrap().check("k").await.is_allowed());
        let taken = limiter.with(&gold).unwrap().check("k").await;
        let denied = limiter.with(&gold).unwrap().check("k").await;
        assert_eq!((denied.is_allowed(), denied.quotas()[0].limit()), (false, 3));
        assert!(limiter.check("other").await.is_allowed());

        let receipt = taken.into_receipt().unwrap();
        assert_eq!(limiter.refund("k", receipt).await.unwrap(), 1);
        assert!(limiter.with(&gold).unwrap().check("k").await.is_allowed(), "given back");
        assert!(limiter.reset("k").await.unwrap());
        assert!(limiter.with(&silver).unwrap().check("k").await.is_allowed(), "after a reset");
    });
}

// However many keys are denied, the cache stays bounded. (A million of them, without a server, is a
// test of `src/deny.rs`.)
#[test]
fn a_flood_of_denied_keys_takes_bounded_memory() {
    const KEYS: u64 = 12_000;
    const ROOM: u64 = 1024;
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 1, HOUR_MS).deny_cache(1024);
        let limiter = limiter.deny_cache_cap(Some(Duration::from_millis(HOUR_MS)));
        let limiter = Arc::new(limiter.build().unwrap());
        for round in ["taken", "denied", "again"] {
            let mut tasks = JoinSet::new();
            for task in 0..100 {
                let limiter = Arc::clone(&limiter);
                tasks.spawn(async move {
                    for key in (task..KEYS).step_by(100) {
                        let decision = limiter.check(key.to_string()).await;
                        assert_eq!(decision.is_allowed(), round == "taken", "{round} {key}");
                        assert!(!decision.is_degraded());
                    }
                });
            }
            tasks.join_all().await;
        }
        let stats = limiter.stats();
        println!("{} of {KEYS} denials were remembered", stats.denied_here);
        assert!((1..=ROOM).contains(&stats.denied_here), "{stats:?}");
    });
}

// A request that took long to arrive was decided late: a client that waits from the time of sending
// would return too early. Measured from the reply, it does not.
#[test]
fn retry_after_from_memory_is_exact() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let cached = limiter(proxy.url(), 3, 1200).deny_cache_cap(None).build().unwrap();
        let twin = twin(&server.url(), 3, 1200).build().unwrap();
        for round in 0..3 {
            let key = format!("k{round}");
            assert!(cached.check_cost(&key, cost(2)).await.is_allowed());
            assert!(cached.check(&key).await.is_allowed());
            proxy.delay_requests(40 * MS);
            assert!(!cached.check_cost(&key, cost(2)).await.is_allowed());
            proxy.delay_requests(Duration::ZERO);

            let before = Instant::now();
            let looked = twin.peek_cost(&key, cost(2)).await.unwrap();
            let (decision, repeats) = from_memory(&cached, &key, cost(2)).await;
            let now = Instant::now();
            assert!(repeats && !looked.is_allowed(), "it took too long to ask");
            let retry_at = now + decision.retry_after().duration().unwrap();
            let earliest = before + looked.retry_after().duration().unwrap() - MS;
            println!("retry_after was {:?} longer than necessary", retry_at - earliest);
            assert!(retry_at >= earliest && retry_at < earliest + SLACK);
            sleep_until(retry_at).await;
            assert!(cached.check_cost(&key, cost(2)).await.is_allowed(), "denied at retry_after");
        }
    });
}

// Eviction, a flush and a failover forget everything without an error. The next check of a key that
// was just denied is the only sign of it.
#[test]
fn lost_keys_are_counted_and_others_are_not() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 3, MINUTE_MS).build().unwrap();
        for key in ["lost", "reset", "refunded"] {
            assert!(limiter.check_cost(key, cost(2)).await.is_allowed());
            assert!(limiter.check(key).await.is_allowed());
            assert!(!limiter.check(key).await.is_allowed());
        }
        assert!(limiter.reset("reset").await.unwrap());
        assert!(limiter.check("reset").await.is_allowed());
        assert_eq!(limiter.forgive("refunded", 3).await.unwrap(), 3);
        assert!(limiter.check("refunded").await.is_allowed());
        assert_eq!(limiter.stats().lost_keys, 0);

        let _: () = redis::cmd("FLUSHALL").query(&mut server.connection().unwrap()).unwrap();
        until_allowed(&limiter, "lost").await;
        assert_eq!(limiter.stats().lost_keys, 1);
        assert!(limiter.check("lost").await.is_allowed());
        assert!(limiter.check("fresh").await.is_allowed());
        assert_eq!(limiter.stats().lost_keys, 1, "once per loss");
    });
}

// All units of a burst expire at once, so the key is empty when it is allowed again.
#[test]
fn expired_keys_are_not_counted_as_lost() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for cap in [None, Some(MS)] {
            let limiter = limiter(&server.url(), 3, 150).deny_cache_cap(cap).build().unwrap();
            for round in 0..4 {
                until_allowed(&limiter, "k").await;
                while limiter.check("k").await.is_allowed() {}
                assert_eq!(limiter.stats().lost_keys, 0, "round {round}, cap {cap:?}");
            }
        }
    });
}
