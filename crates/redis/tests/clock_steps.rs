//! Jumps of the server's clock are detected, reported once, and deny no key for longer than a window.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]
#![expect(clippy::print_stdout, reason = "a test prints its measurements")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{crew, eventually, failing, patient, policy, runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Arg, RedisFuture, Value};
use slidegate::{Algorithm, FailureMode, Policy, Quota, Store};
use slidegate_redis::{BreakerState, Redis, RedisLimiter};
use slidegate_testkit::server::{PATIENCE, RedisServer};
use tokio::task::JoinSet;
use tokio::time::Instant;

const TWO_HOURS: i64 = 7200;
const MINUTE_MS: u64 = 60_000;
const MS: Duration = Duration::from_millis(1);
const WINDOW: Duration = Duration::from_secs(2);
/// What a busy machine may add.
const SLACK: Duration = Duration::from_secs(3);

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Log,
    Algorithm::Counter,
    Algorithm::Segments { count: 10 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

fn limiter(server: &RedisServer, policy: &Policy) -> RedisLimiter {
    let redis = patient(&server.url()).breaker(5, Duration::from_millis(40)).build().unwrap();
    redis.limiter(failing(policy, FailureMode::Deny)).deny_cache(0).build().unwrap()
}

/// Several callers at once while the clock jumps: none of them may take a jump for two.
#[test]
fn every_jump_is_reported_once() {
    crew().block_on(async {
        let server = RedisServer::valkey().fake_clock().start().unwrap();
        let limiter = Arc::new(limiter(&server, &policy("jumps", 1_000_000, MINUTE_MS)));
        assert!(limiter.check("k").await.is_allowed());
        let over = Arc::new(AtomicBool::new(false));
        let mut callers = JoinSet::new();
        for _ in 0..6 {
            let (limiter, over) = (Arc::clone(&limiter), Arc::clone(&over));
            callers.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    let _ = limiter.check("k").await;
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        for (jumps, offset) in [TWO_HOURS, 0, -TWO_HOURS, 0].into_iter().enumerate() {
            let jumps = u64::try_from(jumps + 1).unwrap();
            server.set_clock(offset).unwrap();
            eventually("the jump", async || limiter.stats().clock_steps >= jumps).await;
            let normal = async || limiter.stats().breaker == BreakerState::Closed;
            let took = eventually("the breaker closes", normal).await;
            println!("to {offset:+} s: normal after {took:?}");
            let decisions = limiter.stats().decisions;
            eventually("load", async || limiter.stats().decisions > decisions + 200).await;
            let stats = limiter.stats();
            assert_eq!((stats.clock_steps, stats.breaker_opened), (jumps, jumps), "{stats:?}");
            assert!(stats.degraded > 0);
            let warnings = Store::warnings(&*limiter).await.unwrap();
            assert!(matches!(&*warnings, [one] if one.contains("stepped 1 times")), "{warnings:?}");
            // Once each, or a step of last year would be warned of today.
            assert!(Store::warnings(&*limiter).await.unwrap().is_empty());
        }
        over.store(true, Ordering::Relaxed);
        callers.join_all().await;
        assert_eq!(limiter.stats().unknown, 0);
    });
}

/// A cluster connection: the last byte of a key selects one of two servers.
#[derive(Clone)]
struct TwoNodes([MultiplexedConnection; 2]);

impl ConnectionLike for TwoNodes {
    fn req_packed_command<'a>(&'a mut self, command: &'a redis::Cmd) -> RedisFuture<'a, Value> {
        let Some(Arg::Simple(key)) = command.args_iter().nth(3) else {
            panic!("no key: {command:?}");
        };
        let node = usize::from(key.last().unwrap() % 2);
        self.0[node].req_packed_command(command)
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.0[0].req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        0
    }
}

// Clocks of different nodes differ. Behind a cluster connection, it is not known which node has
// replied, so the difference would look like a jump at every other check.
#[test]
fn nodes_of_a_cluster_connection_may_have_different_clocks() {
    runtime().block_on(async {
        let servers = [0, 1].map(|_| RedisServer::valkey().fake_clock().start().unwrap());
        servers[1].set_clock(TWO_HOURS).unwrap();
        let connect = async |server: &RedisServer| {
            server.client().unwrap().get_multiplexed_async_connection().await.unwrap()
        };
        let nodes = TwoNodes([connect(&servers[0]).await, connect(&servers[1]).await]);
        let redis = Redis::from_cluster_connection(nodes).deadline(PATIENCE).build().unwrap();
        let limiter = redis.limiter(policy("nodes", 10, MINUTE_MS)).build().unwrap();
        for _ in 0..5 {
            for key in ["a", "b"] {
                let decision = limiter.check(key).await;
                assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
            }
        }
        let stats = limiter.stats();
        assert_eq!((stats.clock_steps, stats.small_clock_steps), (0, 0), "{stats:?}");
    });
}

// Clocks are corrected all the time, by milliseconds. That degrades no check, and yet a step ahead
// lets units expire early, so it is counted.
#[test]
fn small_steps_are_counted_and_degrade_nothing() {
    runtime().block_on(async {
        let server = RedisServer::valkey().fake_clock().start().unwrap();
        let limiter = limiter(&server, &policy("small", 1_000_000, MINUTE_MS));
        assert!(limiter.check("k").await.is_allowed());
        let mut steps = 0;
        for millis in [400, 0, -400, 0] {
            server.set_clock_millis(millis).unwrap();
            for _ in 0..20 {
                assert!(limiter.check("k").await.is_allowed());
            }
            let stats = limiter.stats();
            assert_eq!((stats.clock_steps, stats.breaker_opened), (0, 0), "{millis} ms: {stats:?}");
            assert_eq!(stats.degraded, 0);
            steps += 1;
            // A slow reply on a busy machine hides a step.
            assert!(stats.small_clock_steps <= steps, "{millis} ms: {stats:?}");
        }
        let stats = limiter.stats();
        assert!(stats.small_clock_steps >= 1, "{stats:?}");
        let largest = stats.small_clock_step_max;
        assert!((MS..=401 * MS).contains(&largest), "{largest:?}");
        println!("{} of {steps} steps noticed, the largest {largest:?}", stats.small_clock_steps);
        server.set_clock_millis(700).unwrap();
        assert!(limiter.check("k").await.is_allowed());
        assert_eq!(limiter.stats().clock_steps, 1, "and a larger one is");
    });
}

// A denial that is repeated from memory until units expire says nothing about a clock that is set
// back meanwhile: the key would be denied for almost two windows.
#[test]
fn repeated_denials_notice_a_step_back_long_before_the_window_ends() {
    const LONG: Duration = Duration::from_secs(20);
    runtime().block_on(async {
        let server = RedisServer::valkey().fake_clock().start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let quota = failing(&policy("repeated", 2, 20_000), FailureMode::Deny);
        let limiter = redis.limiter(quota).deny_cache_cap(None).build().unwrap();
        exhaust(&limiter, "k").await;
        server.set_clock(-15).unwrap();
        let (calls, stepped) = (limiter.stats().calls, Instant::now());
        let mut denial = limiter.check("k").await;
        while limiter.stats().calls == calls {
            let waited = stepped.elapsed();
            assert!(!denial.is_allowed() && waited < LONG / 2, "no call within {waited:?}");
            tokio::time::sleep(Duration::from_millis(5)).await;
            denial = limiter.check("k").await;
        }
        println!("Redis was called {:?} after the step", stepped.elapsed());
        assert!(denial.retry_after().duration().unwrap() <= LONG, "{denial:?}");
    });
}

/// Asks until Redis denies; how many it allowed.
async fn exhaust(limiter: &RedisLimiter, key: &str) -> u64 {
    let mut allowed = 0;
    loop {
        let decision = limiter.check(key).await;
        if decision.is_degraded() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        } else if decision.is_allowed() {
            allowed += 1;
        } else {
            return allowed;
        }
    }
}

// Entries carry the time of the clock before the jump. After a jump two hours back they would be in
// the future, and their key would be denied for two hours.
#[test]
fn after_a_jump_back_no_key_is_denied_for_longer_than_a_window() {
    runtime().block_on(async {
        let server = RedisServer::valkey().fake_clock().start().unwrap();
        let limiters: Vec<_> = ALGORITHMS
            .into_iter()
            .enumerate()
            .map(|(number, algorithm)| {
                let policy = Policy::builder(&format!("back-{number}"))
                    .quota(Quota::new(5, WINDOW).unwrap())
                    .algorithm(algorithm);
                limiter(&server, &policy.build().unwrap())
            })
            .collect();
        for limiter in &limiters {
            exhaust(limiter, "k").await;
        }
        server.set_clock(-TWO_HOURS).unwrap();
        let waits = limiters.into_iter().map(wait_for_units).collect::<JoinSet<()>>();
        waits.join_all().await;
    });
}

/// Asks until time has freed units.
async fn wait_for_units(limiter: RedisLimiter) {
    let (began, algorithm) = (Instant::now(), limiter.policy().algorithm());
    loop {
        let decision = limiter.check("k").await;
        if decision.is_allowed() {
            break;
        }
        if !decision.is_degraded() {
            let wait = decision.retry_after().duration().unwrap();
            assert!(wait <= most(algorithm), "{algorithm:?}: denied for {wait:?}");
        }
        assert!(began.elapsed() < PATIENCE, "{algorithm:?}: denied for ever");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    println!("{algorithm:?}: allowed again {took:?} after the step");
    assert!(took <= most(algorithm) + SLACK, "{algorithm:?}: {took:?}");
    assert_eq!(limiter.stats().clock_steps, 1, "{algorithm:?}");
}

/// The longest time for which a key without other callers can be denied: a window. Windows that are
/// counted in parts wait for the end of a part.
fn most(algorithm: Algorithm) -> Duration {
    match algorithm {
        Algorithm::Counter => WINDOW * 2,
        Algorithm::Segments { count } => WINDOW + WINDOW / u32::from(count),
        _ => WINDOW,
    }
}

// After a jump two hours ahead all entries have expired: a key that used up its limit gets it once
// more, and only once.
#[test]
fn a_step_forward_costs_one_limit_at_most() {
    const LIMIT: u64 = 20;
    runtime().block_on(async {
        let server = RedisServer::valkey().fake_clock().start().unwrap();
        let limiter = limiter(&server, &policy("ahead", LIMIT, 10 * MINUTE_MS));
        assert_eq!(exhaust(&limiter, "k").await, LIMIT);
        server.set_clock(TWO_HOURS).unwrap();
        let again = exhaust(&limiter, "k").await;
        assert!(again <= LIMIT, "{again} more after the step");
        assert_eq!(exhaust(&limiter, "k").await, 0);
        // And back to the true time: that alone frees nothing.
        server.set_clock(0).unwrap();
        assert_eq!(exhaust(&limiter, "k").await, 0);
        assert_eq!(limiter.stats().clock_steps, 2);
    });
}
