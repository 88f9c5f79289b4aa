//! Counts in a real Redis: shared, refunded, all or nothing, and when it fails.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use slidegate::{Algorithm, FailureMode, Policy, PolicyBuilder, Quota};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::RedisServer;
use slidegate_tower::{
    Count, Gate, KeyBy, Observation, Observer, RateLimitLayer, Rule, Sleep, WaitOptions,
};

use crate::app::{behind, clock, get, send, status, with};

fn policy(name: &str, limit: u32) -> PolicyBuilder {
    Policy::builder(name).quota(Quota::per_hour(limit))
}

/// With a long deadline for a busy machine: a check past its deadline is allowed.
fn redis(server: &RedisServer) -> Redis {
    let patience = Duration::from_secs(2);
    let redis = Redis::single(&server.url()).unwrap();
    redis.deadline(patience).connect_deadline(patience).build().unwrap()
}

fn limiter(redis: &Redis, policy: PolicyBuilder) -> RedisLimiter {
    redis.limiter(policy.build().unwrap()).build().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_share_limits_and_no_credential_reaches_redis() {
    let server = RedisServer::start().unwrap();
    let layer = || {
        let gate = Gate::builder(limiter(&redis(&server), policy("api", 2)));
        let gate = gate.tier("gold", [Quota::per_hour(1000)]).build().unwrap();
        let gold = gate.tier("gold");
        let name = http::HeaderName::from_static("x-api-key");
        let gate = Rule::new(gate)
            .key(KeyBy::header("x-api-key"))
            .tier_by(move |head| gold.filter(|_| head.only(&name).is_some_and(is_gold)));
        behind(&RateLimitLayer::builder().rule(gate).secret([7; 16]).build().unwrap()).1
    };
    let (one, two) = (layer(), layer());
    assert_eq!(status(&one, with("x-api-key", "planted-token")).await, 200);
    assert_eq!(status(&two, with("x-api-key", "planted-token")).await, 200);
    let denied = send(&one, with("x-api-key", "planted-token")).await;
    assert_eq!(denied.status(), 429);
    assert_eq!(denied.headers()["x-ratelimit-limit"], "2");
    let gold = send(&two, with("x-api-key", "gold-token")).await;
    assert_eq!(gold.headers()["ratelimit-policy"], r#""api";q=1000;w=3600"#);

    let mut connection = server.connection().unwrap();
    let keys: Vec<Vec<u8>> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    assert_eq!(keys.len(), 2);
    for key in keys {
        let shown = String::from_utf8_lossy(&key).into_owned();
        assert!(!shown.contains("token"), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_wrong_passwords_count_in_redis() {
    let server = RedisServer::start().unwrap();
    let gate = Rule::new(limiter(&redis(&server), policy("login", 2))).count(Count::failed());
    let (_, service) = behind(&RateLimitLayer::new(gate).unwrap());
    for _ in 0..5 {
        let response = send(&service, get("/200")).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "2");
    }
    assert_eq!(status(&service, get("/401")).await, 401);
    assert_eq!(status(&service, get("/401")).await, 401);
    assert_eq!(status(&service, get("/200")).await, 429);
}

/// A tier of a hundred per day for all keys, with a policy of one per hour: a unit of the policy's
/// rate is four of the tier's.
fn tiered(server: &RedisServer) -> Rule {
    let policy = policy("login", 1).algorithm(Algorithm::Gcra);
    gold(limiter(&redis(server), policy), Quota::per_day(100))
}

/// A rule in which every key has the tier.
fn gold(limiter: RedisLimiter, quota: Quota) -> Rule {
    let gate = Gate::builder(limiter).tier("gold", [quota]).build().unwrap();
    let gold = gate.tier("gold");
    Rule::new(gate).tier_by(move |_| gold)
}

fn is_gold(key: &str) -> bool {
    key.starts_with("gold")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refunds_in_redis_use_the_quotas_of_the_tier() {
    let server = RedisServer::start().unwrap();
    let (_, service) =
        behind(&RateLimitLayer::new(tiered(&server).count(Count::failed())).unwrap());
    for left in ["99", "98", "97", "96", "95"] {
        let response = send(&service, get("/401")).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], left);
    }
    assert_eq!(status(&service, get("/200")).await, 200);
    let response = send(&service, get("/401")).await;
    assert_eq!(response.headers()["x-ratelimit-remaining"], "94");
}

// Units are taken from Redis first, and refunded when another gate denies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_denial_by_another_gate_refunds_units_of_the_tier() {
    let server = RedisServer::start().unwrap();
    let clock = clock();
    let here = Rule::new(crate::app::limiter("here", 5, &clock));
    let layer = RateLimitLayer::builder().rule(tiered(&server)).rule(here).build().unwrap();
    let (_, service) = behind(&layer);
    for _ in 0..5 {
        assert_eq!(status(&service, get("/")).await, 200);
    }
    for _ in 0..3 {
        assert_eq!(status(&service, get("/")).await, 429);
    }
    clock.advance(Duration::from_secs(60));
    let response = send(&service, get("/")).await;
    let field = response.headers()["ratelimit"].to_str().unwrap();
    assert!(field.starts_with(r#""login";r=94;"#), "{field}");
}

// Tiers and refunds keep working while Redis is unavailable.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tiers_and_refunds_work_without_redis() {
    let mut server = RedisServer::start().unwrap();
    let policy = policy("login", 1).failure_mode(FailureMode::Local);
    let rule = gold(limiter(&redis(&server), policy), Quota::per_day(3));
    let (_, service) = behind(&RateLimitLayer::new(rule.count(Count::failed())).unwrap());
    server.kill().unwrap();
    for _ in 0..5 {
        let response = send(&service, get("/200")).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "3");
    }
    for expected in [401, 401, 401, 429] {
        assert_eq!(status(&service, get("/401")).await, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_policies_of_one_redis_take_all_or_nothing() {
    let server = RedisServer::start().unwrap();
    let redis = redis(&server);
    let by_address = Rule::new(limiter(&redis, policy("address", 100)));
    let by_user = Rule::new(limiter(&redis, policy("user", 1))).key(KeyBy::header("x-user"));
    let layer = RateLimitLayer::builder().rule(by_address).rule(by_user).secret([7; 16]);
    let (_, service) = behind(&layer.build().unwrap());
    assert_eq!(status(&service, with("x-user", "alice")).await, 200);
    for _ in 0..5 {
        assert_eq!(status(&service, with("x-user", "alice")).await, 429);
    }
    let response = send(&service, with("x-user", "bob")).await;
    let field = response.headers()["ratelimit"].to_str().unwrap();
    assert!(field.starts_with(r#""address";r=98;"#), "{field}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_is_served_when_redis_has_units() {
    let server = Arc::new(RedisServer::valkey().fake_clock().start().unwrap());
    let policy = Policy::builder("api").quota(Quota::per_minute(1));
    // Sleeping advances the server's clock.
    let (clock, offset) = (Arc::clone(&server), AtomicI64::new(0));
    let sleep = Sleep::new(move |time| {
        let millis = i64::try_from(time.as_millis()).unwrap() + 1;
        let offset = offset.fetch_add(millis, Ordering::Relaxed) + millis;
        clock.set_clock_millis(offset).unwrap();
        std::future::ready(())
    });
    let waiting = WaitOptions::new(Duration::from_secs(60), sleep);
    // The deny cache uses the clock of this machine, which does not advance.
    let limiter = redis(&server).limiter(policy.build().unwrap()).deny_cache(0).build().unwrap();
    let layer = RateLimitLayer::builder().rule(Rule::new(limiter)).wait(waiting).build().unwrap();
    let (app, service) = behind(&layer);
    for _ in 0..3 {
        assert_eq!(status(&service, get("/")).await, 200);
    }
    assert_eq!(app.served(), 3);
}

/// Counts decisions by a failure mode.
#[derive(Debug, Default)]
struct Degraded(AtomicU64);

impl Observer for Degraded {
    fn decided(&self, observation: &Observation<'_>) {
        let degraded = u64::from(observation.is_degraded);
        self.0.fetch_add(degraded, Ordering::Relaxed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_failure_mode_decides_when_redis_fails() {
    for (mode, expected) in [
        (FailureMode::Allow, [200, 200, 200]),
        (FailureMode::Deny, [503, 503, 503]),
        (FailureMode::Local, [200, 200, 429]),
    ] {
        let mut server = RedisServer::start().unwrap();
        let degraded = Arc::new(Degraded::default());
        let limiter = limiter(&redis(&server), policy("api", 2).failure_mode(mode));
        let layer = RateLimitLayer::builder()
            .rule(Rule::new(limiter))
            .observer(Arc::clone(&degraded))
            .build()
            .unwrap();
        let (_, service) = behind(&layer);
        server.kill().unwrap();
        for expected in expected {
            assert_eq!(status(&service, get("/")).await, expected, "{mode:?}");
        }
        assert_eq!(degraded.0.load(Ordering::Relaxed), 3, "{mode:?}");
    }
}
