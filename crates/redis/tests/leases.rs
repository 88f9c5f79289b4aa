//! Leases in one process: saved calls, refunds, and failures.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{patient, policy, runtime};
use slidegate::{Algorithm, Cost, FailureMode, Policy, Quota};
use slidegate_redis::{BreakerState, Redis, RedisLimiter, RedisLimiterBuilder};
use slidegate_testkit::server::{PATIENCE, Proxy, RedisServer, ReplyFault, monotonic, poll};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const MS: Duration = Duration::from_millis(1);
const MINUTE_MS: u64 = 60_000;

/// The time that a busy machine may add.
const SLACK: Duration = Duration::from_secs(1);

fn limiter(url: &str, limit: u64) -> RedisLimiterBuilder {
    // Tests that advance this process's clock would look like a jump of the server's clock.
    let redis = patient(url).clock_step(Duration::from_secs(24 * 3600)).build().unwrap();
    redis.limiter(policy("lease", limit, MINUTE_MS))
}

async fn used(limiter: &RedisLimiter, key: &str) -> u64 {
    limiter.usage(key).await.unwrap().as_slice()[0]
}

/// Polls until the usage of a key has the expected value. Returns how long that took.
async fn until_used(limiter: &RedisLimiter, key: &str, units: u64) -> Duration {
    let start = Instant::now();
    loop {
        let now = used(limiter, key).await;
        if now == units {
            return start.elapsed();
        }
        assert!(start.elapsed() < PATIENCE, "{now} used instead of {units}");
        sleep(MS).await;
    }
}

/// Advances this process's clock. Redis and calls still take real time.
async fn skip(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

/// Checks so often that the key is hot. All checks are allowed.
async fn heat(limiter: &RedisLimiter, key: &str, checks: u64) {
    for _ in 0..checks {
        assert!(limiter.check(key).await.is_allowed());
    }
}

#[test]
fn unused_units_are_refunded() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for (length, checks) in [(5 * MS, 2000), (200 * MS, 300)] {
            let limiter = limiter(&server.url(), 100_000).leases(length).build().unwrap();
            let key = format!("{length:?}");
            heat(&limiter, &key, checks).await;
            let took = until_used(&limiter, &key, checks).await;
            let stats = limiter.stats();
            println!("leases of {length:?}: what was left was back after {took:?}; {stats:?}");
            assert!(took < length + SLACK);
            assert!(stats.leases > 0 && stats.lease_units_returned > 0, "{stats:?}");
            assert_eq!(stats.lease_units_lost, 0);
            // Nothing more is refunded later.
            skip(2 * length).await;
            for _ in 0..3 {
                assert_eq!(used(&limiter, &key).await, checks);
            }
        }
    });
}

// Receipts of leased units refer to the lease: a refund must be neither lost nor repeated when the
// lease ends.
#[test]
fn refunds_of_leased_units_are_counted_once() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 100_000).leases(100 * MS).build().unwrap();
        let mut kept = 0;
        for number in 0..600 {
            let receipt = limiter.check("k").await.into_receipt().unwrap();
            if number % 3 == 0 {
                assert_eq!(limiter.refund("k", receipt).await.unwrap(), 1);
            } else {
                kept += 1;
            }
        }
        assert!(limiter.stats().leased_here > 0);
        until_used(&limiter, "k", kept).await;
    });
}

// Up: a hot key needs an occasional call. Down: a lease is not larger than the demand, and a key
// that has cooled down, or never was hot, has none.
#[test]
fn leases_follow_demand_up_and_down() {
    // Long enough that a stall of the machine is a small part of it; no test waits for it.
    const LENGTH: Duration = Duration::from_secs(1);
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let limiter = limiter(&server.url(), 1_000_000).leases(LENGTH).build().unwrap();
        for _ in 0..5 {
            assert!(limiter.check("cold").await.is_allowed());
            skip(LENGTH / 2).await;
        }
        assert_eq!(limiter.stats().leases, 0, "a cold key");

        let before = limiter.stats();
        heat(&limiter, "hot", 5000).await;
        let after = limiter.stats();
        let calls = after.calls - before.calls;
        println!("{calls} calls for 5000 decisions on a hot key");
        assert!(calls < 500, "{after:?}");

        // It was checked thousands of times per lease, and now five times: a lease must not hold
        // much more than that.
        skip(2 * LENGTH).await;
        until_used(&limiter, "hot", 5000).await;
        let leases = limiter.stats().leases;
        let mut most = 0;
        for number in 1..=25 {
            assert!(limiter.check("hot").await.is_allowed());
            most = most.max(used(&limiter, "hot").await - 5000 - number);
            skip(LENGTH / 6).await;
        }
        println!("asked for slowly, it held {most} units in advance");
        assert!(limiter.stats().leases > leases, "it is still worth leases");
        assert!(most <= 10, "held {most} units for a key that is asked for 5 times a lease");

        skip(2 * LENGTH).await;
        let leases = limiter.stats().leases;
        assert!(limiter.check("hot").await.is_allowed());
        assert_eq!(limiter.stats().leases, leases, "it has cooled down");
    });
}

// The reply to a lease arrives when the lease is over. Its units must not be used, and must not be
// lost. The caller itself was allowed by Redis, as by any late reply; treating that as a failure
// would leave a hot key to the failure mode whenever Redis is farther away than a lease is long.
#[test]
fn a_late_lease_neither_admits_nor_leaks() {
    const LENGTH: Duration = Duration::from_millis(20);
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let limiter = Arc::new(limiter(proxy.url(), 10_000).leases(LENGTH).build().unwrap());
        heat(&limiter, "k", 3).await;
        proxy.delay_replies(3 * LENGTH);
        let mut allowed = 3;
        for _ in 0..5 {
            let before = limiter.stats();
            let mut tasks = JoinSet::new();
            for _ in 0..20 {
                let limiter = Arc::clone(&limiter);
                tasks.spawn(async move { limiter.check("k").await });
            }
            for decision in tasks.join_all().await {
                assert!(decision.is_allowed() && !decision.is_degraded());
                allowed += 1;
            }
            let after = limiter.stats();
            assert_eq!(after.leased_here, before.leased_here, "used after its end");
        }
        let stats = limiter.stats();
        assert!(stats.leases > 0, "{stats:?}");
        proxy.delay_replies(Duration::ZERO);
        until_used(&limiter, "k", allowed).await;
        assert_eq!(limiter.stats().lease_units_lost, 0);
    });
}

// A lease is measured from sending the request, not from its reply: the server recorded it with a
// clock that was already running. Only the end of the lease can stop its use here, because the only
// thread is blocked until then.
#[test]
fn a_lease_is_not_used_after_its_end() {
    const LENGTH: Duration = Duration::from_millis(500);
    const DELAY: Duration = Duration::from_millis(250);
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let limiter = limiter(proxy.url(), 10_000).leases(LENGTH).build().unwrap();
        // On a busy machine, a key may have cooled down before its fourth check: then another one
        // is used.
        for key in 0..50 {
            let key = key.to_string();
            heat(&limiter, &key, 3).await;
            proxy.delay_replies(DELAY);
            assert!(limiter.check(&key).await.is_allowed());
            // It was requested before this by at least the delay.
            let end = monotonic() + LENGTH.saturating_sub(DELAY);
            if limiter.stats().leases > 0 {
                assert!(limiter.check(&key).await.is_allowed());
                let leased = limiter.stats().leased_here;
                poll("the lease to be over", || Ok((monotonic() > end).then_some(()))).unwrap();
                assert!(limiter.check(&key).await.is_allowed());
                assert_eq!(limiter.stats().leased_here, leased, "used after its end");
                return;
            }
            proxy.delay_replies(Duration::ZERO);
        }
        panic!("no key became hot");
    });
}

// Callers wait for a fetch in flight. If each of them then fetched in turn, the last of a hundred
// would wait for a hundred round trips.
#[test]
fn waiting_callers_do_not_fetch_in_turn() {
    const DELAY: Duration = Duration::from_millis(150);
    const CALLERS: usize = 200;
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        for deny_keys in [0, 1024] {
            let redis = patient(proxy.url()).deadline(Duration::from_secs(2)).build().unwrap();
            let limiter = redis.limiter(policy(&format!("line{deny_keys}"), 100, MINUTE_MS));
            let limiter = limiter.leases(500 * MS).deny_cache(deny_keys).build().unwrap();
            let limiter = Arc::new(limiter);
            heat(&limiter, "k", 4).await;
            proxy.delay_replies(DELAY);
            let start = Instant::now();
            let mut tasks = JoinSet::new();
            for _ in 0..CALLERS {
                let limiter = Arc::clone(&limiter);
                tasks.spawn(async move { limiter.check("k").await });
            }
            let decisions = tasks.join_all().await;
            let took = start.elapsed();
            proxy.delay_replies(Duration::ZERO);
            let allowed = decisions.iter().filter(|decision| decision.is_allowed()).count();
            println!("deny cache of {deny_keys}: {CALLERS} callers were answered after {took:?}");
            assert!(decisions.iter().all(|decision| !decision.is_degraded()));
            // Without the checks that heated it, and without units of a lease while others were
            // denied.
            assert!((50..=96).contains(&allowed), "{allowed} allowed");
            assert!(took < Duration::from_secs(2) + SLACK, "{took:?}");
        }
    });
}

// A caller that is dropped while a lease is fetched must not lose its units: a few of them would
// lock the key for a window.
#[test]
fn dropped_callers_do_not_lose_units() {
    const LENGTH: Duration = Duration::from_millis(300);
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let limiter = limiter(proxy.url(), 10_000).leases(LENGTH).build().unwrap();
        let (mut allowed, mut gone, mut charged) = (0, 0, 0);
        for _ in 0..3 {
            heat(&limiter, "k", 200).await;
            allowed += 200;
            skip(LENGTH).await;
            let leases = limiter.stats().leases;
            proxy.delay_replies(100 * MS);
            let checked = timeout(20 * MS, limiter.check("k")).await;
            proxy.delay_replies(Duration::ZERO);
            // Redis replies in order: after this, it has replied to that check too.
            let _ = used(&limiter, "k").await;
            match checked {
                Ok(decision) => allowed += u64::from(decision.is_allowed()),
                Err(_) if limiter.stats().leases > leases => gone += 1,
                // The key was not hot any more: it was checked alone, and charged.
                Err(_) => charged += 1,
            }
        }
        assert!(gone > 0, "no caller was dropped");
        let took = until_used(&limiter, "k", allowed + charged).await;
        println!("{gone} went away, {allowed} were allowed; no more are used after {took:?}");
        assert_eq!(limiter.stats().lease_units_lost, 0);
    });
}

// Redis granted units and the reply was lost. They cannot be refunded; they are reported as lost,
// and it does not repeat.
#[test]
fn units_of_a_lost_reply_are_counted_as_lost() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let limiter = limiter(proxy.url(), 10_000).leases(300 * MS).build().unwrap();
        heat(&limiter, "k", 3).await;
        proxy.fail_next(1, ReplyFault::Cut { after: 0 });
        let decision = limiter.check("k").await;
        assert!(decision.is_degraded());
        let stats = limiter.stats();
        assert_eq!((stats.leases, stats.unknown), (0, 1), "{stats:?}");
        let lost = stats.lease_units_lost;
        assert!(lost > 0);
        assert_eq!(used(&limiter, "k").await, 3 + lost, "Redis did grant them");
        assert!(limiter.check("k").await.is_allowed());
        assert_eq!(limiter.stats().leases, 0, "the next one asks for itself");
    });
}

// Units that Redis has reset are granted again, so an earlier lease would add to them.
#[test]
fn a_reset_ends_the_leases_of_this_limiter() {
    let server = RedisServer::start().unwrap();
    let proxy = Proxy::in_front_of(&server).unwrap();
    runtime().block_on(async {
        let limiter = limiter(proxy.url(), 1000).leases(Duration::from_secs(1));
        let limiter = Arc::new(limiter.deny_cache_cap(Some(MS)).build().unwrap());
        heat(&limiter, "k", 40).await;
        let leases = limiter.stats().leases;
        assert!(leases > 0 && used(&limiter, "k").await > 40, "it holds units");
        assert!(limiter.reset("k").await.unwrap());
        let mut allowed = 0;
        for _ in 0..2000 {
            allowed += u64::from(limiter.check("k").await.is_allowed());
        }
        assert!(allowed <= 1000, "{allowed} allowed since the reset");
        let start = Instant::now();
        while allowed < 1000 {
            allowed += u64::from(limiter.check("k").await.is_allowed());
            assert!(allowed <= 1000 && start.elapsed() < PATIENCE, "{allowed} allowed");
            sleep(MS).await;
        }

        // Also one whose reply is in flight when the reset is called.
        heat(&limiter, "late", 3).await;
        proxy.delay_replies(200 * MS);
        let asking = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { limiter.check("late").await }
        });
        let direct = patient(&server.url()).build().unwrap();
        let direct = direct.limiter(policy("lease", 1000, MINUTE_MS)).build().unwrap();
        let start = Instant::now();
        while used(&direct, "late").await < 5 {
            assert!(start.elapsed() < PATIENCE, "no lease was granted");
            sleep(MS).await;
        }
        assert!(limiter.reset("late").await.unwrap());
        assert!(asking.await.unwrap().is_allowed());
        proxy.delay_replies(Duration::ZERO);
        let leased = limiter.stats().leased_here;
        assert!(limiter.check("late").await.is_allowed());
        assert_eq!(limiter.stats().leased_here, leased, "taken from a lease before the reset");
    });
}

// GCRA counts in fractions of the limit: units of a tier refunded with the policy's quota would be
// worth a hundred times as much.
#[test]
fn refunds_use_the_quotas_of_the_tier() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in [Algorithm::Log, Algorithm::Gcra] {
            let minute = Duration::from_millis(MINUTE_MS);
            let quota = |limit| Quota::new(limit, minute).unwrap();
            let policy = Policy::builder("tiers").quota(quota(100)).algorithm(algorithm);
            let redis = patient(&server.url()).build().unwrap();
            let limiter = redis.limiter(policy.build().unwrap()).leases(200 * MS);
            let limiter = limiter.build().unwrap();
            let key = format!("{algorithm:?}");
            let gold = limiter.tier(&[quota(10_000)]).unwrap();
            let began = Instant::now();
            let mut last = 0;
            for _ in 0..200 {
                let decision = limiter.with(&gold).unwrap().check(&key).await;
                assert!(decision.is_allowed());
            }
            let start = Instant::now();
            while limiter.stats().lease_units_returned == 0 {
                assert!(start.elapsed() < PATIENCE, "{:?}", limiter.stats());
                sleep(MS).await;
            }
            for _ in 0..3 {
                let decision = limiter.with(&gold).unwrap().check(&key).await;
                last = 10_000 - decision.remaining();
            }
            println!("{algorithm:?}: 203 taken, {last} counted");
            // GCRA refills 167 units per second meanwhile.
            let refilled = match algorithm {
                Algorithm::Gcra => u64::try_from(began.elapsed().as_millis()).unwrap() / 5 + 1,
                _ => 0,
            };
            assert!((203 - refilled.min(203)..=203).contains(&last), "{algorithm:?}: {last}");
        }
    });
}

#[test]
fn settings_are_validated_in_any_order() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    // A unit would count for three windows instead of one.
    let long = redis.limiter(policy("long", 100, 50)).leases(100 * MS).build();
    let message = long.unwrap_err().to_string();
    assert!(message.contains("longer than the window of 50ms"), "{message}");
    runtime().block_on(async {
        // Half of the limit is enough for a lease with a cost of ten; a sixteenth is not.
        let limiter = limiter(&server.url(), 100).lease_share(2).leases(Duration::from_secs(1));
        let limiter = limiter.build().unwrap();
        for _ in 0..6 {
            assert!(limiter.check_cost("k", Cost::new(10).unwrap()).await.is_allowed());
        }
        assert!(limiter.stats().leases > 0, "{:?}", limiter.stats());
    });
}

fn with_mode(url: &str, mode: FailureMode) -> RedisLimiter {
    let redis = Redis::single(url).unwrap().deadline(100 * MS).breaker(3, 50 * MS);
    let redis = redis.connect_deadline(Duration::from_secs(10)).build().unwrap();
    let quota = Quota::new(100_000, Duration::from_millis(MINUTE_MS)).unwrap();
    let policy = Policy::builder("outage").quota(quota).algorithm(Algorithm::Log);
    let policy = policy.failure_mode(mode).build().unwrap();
    redis.limiter(policy).leases(400 * MS).build().unwrap()
}

// During a lease, Redis is not needed. After it, the failure mode decides in time; unused units are
// reported as lost; and when Redis is back, leases work again.
#[test]
fn redis_fails_during_a_lease() {
    for mode in [FailureMode::Allow, FailureMode::Deny, FailureMode::Local] {
        let mut server = RedisServer::start().unwrap();
        runtime().block_on(async {
            let limiter = with_mode(&server.url(), mode);
            // This test does not check whether a busy machine misses the deadline.
            let start = Instant::now();
            while limiter.stats().leases == 0 || limiter.check("k").await.is_degraded() {
                assert!(start.elapsed() < PATIENCE, "no lease: {:?}", limiter.stats());
                let _ = limiter.check("k").await;
            }
            let leased = limiter.stats().leased_here;
            server.suspend().unwrap();
            let decision = limiter.check("k").await;
            let stats = limiter.stats();
            assert!(decision.is_allowed());
            assert!(stats.leased_here > leased || decision.is_degraded(), "{stats:?}");

            let start = Instant::now();
            while limiter.stats().breaker == BreakerState::Closed {
                let asked = Instant::now();
                let decision = limiter.check("k").await;
                let took = asked.elapsed();
                assert!(took < 100 * MS + SLACK, "{mode:?}: answered after {took:?}");
                if decision.is_degraded() {
                    assert_eq!(decision.is_allowed(), mode != FailureMode::Deny);
                }
                assert!(start.elapsed() < PATIENCE, "the breaker did not open");
                sleep(MS).await;
            }
            let start = Instant::now();
            while limiter.stats().lease_units_lost == 0 {
                assert!(start.elapsed() < PATIENCE, "{mode:?}: {:?}", limiter.stats());
                sleep(MS).await;
            }
            server.resume().unwrap();
            let start = Instant::now();
            while limiter.check("k").await.is_degraded() {
                assert!(start.elapsed() < PATIENCE, "Redis is back");
                sleep(MS).await;
            }
            println!("{mode:?}: {:?}", limiter.stats());
        });
    }
}
