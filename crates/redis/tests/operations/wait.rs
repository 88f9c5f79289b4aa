//! Waiting for units in Redis.
//!
//! What could go wrong: more units than the limit, a caller that overtakes those before it, a dropped
//! caller that took units all the same, waiters without a bound, a wait beyond its timeout.

use std::sync::Arc;
use std::time::Duration;

use slidegate::{
    Algorithm, Clock, Cost, Decision, ErrorKind, FailureMode, Policy, Quota, Quotas, Target,
};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::{PATIENCE, RedisServer};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};

use super::common::{crew, eventually, failing, patient, runtime};
use super::{ALGORITHMS, START, Stores, policy};

const LONG: Duration = Duration::from_secs(60);

fn limiter(server: &RedisServer, policy: Policy) -> Arc<RedisLimiter> {
    let redis = patient(&server.url()).build().unwrap();
    Arc::new(redis.limiter(policy).build().unwrap())
}

fn per(limit: u64, window_ms: u64) -> Quota {
    Quota::new(limit, Duration::from_millis(window_ms)).unwrap()
}

#[test]
fn waiters_are_served_in_order_and_the_limit_holds() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let limiter = limiter(&server, policy("order", per(2, 300), Algorithm::Log));
        let (mut tasks, served) = (JoinSet::new(), Arc::new(parking_lot::Mutex::new(Vec::new())));
        for caller in 0..10 {
            let (waiter, seen) = (Arc::clone(&limiter), Arc::clone(&served));
            tasks.spawn(async move {
                let decision = waiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap();
                assert!(decision.is_allowed() && !decision.is_degraded());
                seen.lock().push(caller);
            });
            // The next one arrives when this one is in line or served.
            let count = async || limiter.stats().waiters + served.lock().len();
            eventually("a place in line", async || count().await > caller).await;
        }
        tasks.join_all().await;
        assert_eq!(limiter.stats().waiters, 0);
        // Those that are served by the same call of time may note it in any order.
        let served = served.lock().clone();
        for (place, caller) in served.iter().enumerate() {
            assert!(place.abs_diff(*caller) <= 1, "{served:?}");
        }
        let events = limiter.history("k").await.unwrap();
        for pair in events.windows(3) {
            assert!(pair[2].at >= pair[0].at + Duration::from_millis(300), "{events:?}");
        }
    });
}

#[test]
fn waits_on_a_moved_clock_agree_with_memory() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in [Algorithm::Log, Algorithm::Gcra] {
            let policy =
                policy(&format!("wait-{}", algorithm.name()), Quota::per_minute(2), algorithm);
            for place in 0..2 {
                let Stores { stores, clock } = Stores::new(&server, &policy);
                let store = &stores[place];
                let moved = clock.clone();
                let sleep = move |time| -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
                    moved.advance(time);
                    Box::pin(std::future::ready(()))
                };
                let key = format!("{place}");
                let target = Target::new(key.as_bytes(), Quotas::Policy);
                assert!(store.waits_in_order());
                for _ in 0..6 {
                    let decision = store.wait(target, Cost::ONE, 2 * LONG, &sleep).await.unwrap();
                    assert!(decision.is_allowed());
                }
                let passed = Duration::from_nanos(clock.now()).saturating_sub(START);
                assert_eq!(passed, Duration::from_secs(120), "{algorithm:?}, store {place}");
                let denied = store.wait(target, Cost::new(3).unwrap(), LONG, &sleep).await.unwrap();
                assert!(!denied.is_allowed());
            }
        }
    });
}

#[test]
fn every_algorithm_waits() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in ALGORITHMS {
            let policy = policy(&format!("all-{}", algorithm.name()), per(1, 200), algorithm);
            let limiter = limiter(&server, policy);
            for _ in 0..3 {
                let decision = limiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap();
                assert!(decision.is_allowed(), "{algorithm:?}");
            }
        }
    });
}

#[test]
fn a_wait_that_would_be_too_long_is_denied_at_once() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let limiter = limiter(&server, policy("long", Quota::per_hour(3), Algorithm::Log));
        assert!(limiter.check_cost("k", Cost::new(3).unwrap()).await.is_allowed());
        let began = Instant::now();
        let denied = limiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap();
        assert!(!denied.is_allowed() && !denied.is_degraded());
        let never = limiter.wait_timeout("k", Cost::new(4).unwrap(), LONG).await.unwrap();
        assert!(!never.is_allowed());
        // Behind another waiter too.
        let two_hours = Duration::from_secs(7200);
        let ahead = Arc::clone(&limiter);
        let ahead =
            tokio::spawn(async move { ahead.wait_timeout("k", Cost::ONE, two_hours).await });
        eventually("a waiter", async || limiter.stats().waiters == 1).await;
        let denied = limiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap();
        assert!(!denied.is_allowed() && limiter.stats().waiters == 1);
        assert!(began.elapsed() < LONG);
        ahead.abort();
        eventually("no waiter", async || limiter.stats().waiters == 0).await;
    });
}

// Together with the units ahead, both costs are above the limit. If that hides when the turn can come
// at the earliest, the caller waits for its whole timeout and is then denied.
#[test]
fn waits_behind_a_queue_that_cannot_succeed_are_denied_at_once() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let half_an_hour = Duration::from_secs(1800);
        for (limit, cost) in [(10_u32, 11), (1, 1)] {
            let name = format!("behind-{limit}");
            let limiter = limiter(&server, policy(&name, Quota::per_hour(limit), Algorithm::Log));
            assert!(limiter.check_cost("k", Cost::new(limit.into()).unwrap()).await.is_allowed());
            let ahead = Arc::clone(&limiter);
            let ahead =
                tokio::spawn(
                    async move { ahead.wait_timeout("k", Cost::ONE, 4 * half_an_hour).await },
                );
            eventually("a waiter", async || limiter.stats().waiters == 1).await;
            let waiting = limiter.wait_timeout("k", Cost::new(cost).unwrap(), half_an_hour);
            let denied = timeout(PATIENCE, waiting).await.expect("no decision").unwrap();
            assert!(!denied.is_allowed() && !denied.is_degraded(), "{denied:?}");
            let after = denied.retry_after().duration();
            assert_eq!(after.is_none(), cost > u64::from(limit), "{denied:?}");
            assert!(after.is_none_or(|after| after > half_an_hour), "{denied:?}");
            ahead.abort();
        }
    });
}

#[test]
fn a_refund_in_this_process_wakes_the_first_waiter() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let limiter = limiter(&server, policy("refund", Quota::per_hour(1), Algorithm::Log));
        let receipt = limiter.check("k").await.into_receipt().unwrap();
        let waiter = Arc::clone(&limiter);
        let two_hours = Duration::from_secs(7200);
        let waiter =
            tokio::spawn(async move { waiter.wait_timeout("k", Cost::ONE, two_hours).await });
        eventually("a waiter", async || limiter.stats().waiters == 1).await;
        assert_eq!(limiter.refund("k", receipt).await.unwrap(), 1);
        assert!(waiter.await.unwrap().unwrap().is_allowed());
    });
}

#[test]
fn dropped_waiters_take_nothing() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let limiter = limiter(&server, policy("drop", Quota::per_hour(100_000), Algorithm::Log));
        let (mut tasks, mut handles) = (JoinSet::new(), Vec::new());
        for caller in 0..200 {
            let limiter = Arc::clone(&limiter);
            let task = async move { limiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap() };
            let handle = tasks.spawn(task);
            if caller % 2 == 1 {
                handles.push(handle);
            }
            if caller % 10 == 9 {
                // Some are dropped before they start, some while their check is in flight.
                tokio::task::yield_now().await;
                handles.drain(..).for_each(|handle| handle.abort());
            }
        }
        let mut served = 0;
        while let Some(ended) = tasks.join_next().await {
            served += u64::from(ended.is_ok_and(|decision| decision.is_allowed()));
        }
        eventually("refunds", async || limiter.usage("k").await.unwrap().units(0) == served).await;
        assert!(served >= 100);
    });
}

#[test]
fn waiters_are_bounded_per_key_and_in_total() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        let builder = redis.limiter(policy("bound", Quota::per_hour(1), Algorithm::Log));
        let limiter = Arc::new(builder.waiters_max(3).waiters_per_key_max(2).build().unwrap());
        for key in ["a", "b"] {
            assert!(limiter.check(key).await.is_allowed());
        }
        let two_hours = Duration::from_secs(7200);
        let mut tasks = JoinSet::new();
        for (key, waiters) in [("a", 1), ("b", 2)] {
            let waiter = Arc::clone(&limiter);
            tasks.spawn(async move { waiter.wait_timeout(key, Cost::ONE, two_hours).await });
            eventually("a waiter", async || limiter.stats().waiters == waiters).await;
        }
        // The third waiter: the limit is free again after an hour, so its turn may come in time.
        let waiter = Arc::clone(&limiter);
        tasks.spawn(async move { waiter.wait_timeout("a", Cost::ONE, two_hours).await });
        eventually("a waiter", async || limiter.stats().waiters == 3).await;
        for key in ["a", "b"] {
            let error = limiter.wait_timeout(key, Cost::ONE, two_hours).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Waiters, "{error}");
        }
        // One that need not wait is served.
        assert!(limiter.wait_timeout("c", Cost::ONE, LONG).await.unwrap().is_allowed());
        tasks.shutdown().await;
        eventually("no waiter", async || limiter.stats().waiters == 0).await;
    });
}

#[test]
fn without_redis_the_failure_mode_decides_within_the_timeout() {
    runtime().block_on(async {
        for (mode, allowed) in [(FailureMode::Allow, true), (FailureMode::Deny, false)] {
            let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
            let policy = policy("away", Quota::per_hour(1), Algorithm::Log);
            let limiter = redis.limiter(failing(&policy, mode)).build().unwrap();
            let began = Instant::now();
            let timeout = Duration::from_millis(300);
            let decision = limiter.wait_timeout("k", Cost::ONE, timeout).await.unwrap();
            assert!(decision.is_degraded());
            assert_eq!(decision.is_allowed(), allowed);
            assert!(began.elapsed() < PATIENCE);
        }
    });
}

#[test]
fn several_processes_share_the_limit_while_they_wait() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let policy = policy("processes", per(5, 400), Algorithm::Log);
        let limiters = [0; 3].map(|_| limiter(&server, policy.clone()));
        let mut tasks = JoinSet::new();
        for caller in 0..30 {
            let limiter = Arc::clone(&limiters[caller % 3]);
            tasks.spawn(async move { limiter.wait_timeout("k", Cost::ONE, LONG).await.unwrap() });
        }
        let decisions: Vec<Decision> = tasks.join_all().await;
        assert!(decisions.iter().all(|decision| decision.is_allowed() && !decision.is_degraded()));
        // 30 units at 5 per 400 ms: none of them too early, by the clock of the server.
        let ticks = |decision: Decision| decision.into_receipt().unwrap().tick();
        let mut ticks: Vec<u64> = decisions.into_iter().map(ticks).collect();
        ticks.sort_unstable();
        for pair in ticks.windows(6) {
            assert!(pair[5] - pair[0] >= 400, "{ticks:?}");
        }
    });
}
