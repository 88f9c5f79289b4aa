//! Settings at and beyond their ranges: a typed error with the value, the bound and the fix, before
//! any server is called; at the bounds, everything works.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod common;

use std::time::Duration;

use common::{patient, policy, runtime};
use slidegate::{Algorithm, Cost, Error, ErrorKind, FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisBuilder, RedisLimiterBuilder};
use slidegate_testkit::server::RedisServer;

const UNITS_MAX: u64 = Quota::LIMIT_MAX;
const TEN_YEARS: Duration = Duration::from_secs(10 * 366 * 24 * 3600);
const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);

/// Returns a builder for a port without a server, which is never called.
fn nowhere() -> RedisBuilder {
    Redis::single("redis://127.0.0.1:1").unwrap()
}

/// Asserts that a setting is rejected with a message that contains all of `parts`.
fn refused(result: Result<(), Error>, parts: &[&str]) {
    let error = result.expect_err(&parts.join(" "));
    assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
    let text = error.to_string();
    assert!(text.contains(": use ") || text.contains(": set "), "no fix in: {text}");
    for part in parts {
        assert!(text.contains(part), "{part:?} is not in: {text}");
    }
}

#[test]
fn the_servers_settings_have_bounds() {
    let refused = |set: &dyn Fn(RedisBuilder) -> RedisBuilder, parts: &[&str]| {
        refused(set(nowhere()).build().map(|_| ()), parts);
    };
    for wrong in [Duration::ZERO, Duration::from_micros(999), MINUTE + MS, Duration::MAX] {
        let value = format!("{wrong:?}");
        refused(&|builder| builder.deadline(wrong), &["deadline", &value, "1 ms to 60 s"]);
        refused(&|builder| builder.connect_deadline(wrong), &["connect", &value, "1 ms to 60 s"]);
        refused(&|builder| builder.breaker(5, wrong), &["breaker", &value, "1 ms to 60 s"]);
    }
    refused(&|builder| builder.breaker(0, SECOND), &["failures 0", "1 or more"]);
    for wrong in [Duration::ZERO, 25 * 60 * MINUTE, Duration::MAX] {
        let value = format!("{wrong:?}");
        refused(&|builder| builder.clock_step(wrong), &["clock step", &value, "1 ms to 24 h"]);
    }
    for wrong in [0, (1 << 20) + 1, usize::MAX] {
        let value = wrong.to_string();
        refused(
            &|builder| builder.in_flight_max(wrong),
            &["in_flight_max", &value, "1 to 1048576"],
        );
    }
    for wrong in ["", "a b", "a;b", "{}", "a*", "a%", "ä", &"x".repeat(33)] {
        refused(&|builder| builder.prefix(wrong), &["prefix", &format!("{wrong:?}"), "1 to 32"]);
    }
    refused(&|builder| builder.key_secret(b"fifteen bytes.."), &["15 bytes", "at least 16"]);
    refused(&|builder| builder.database(-1), &["database -1", "0 or more"]);
}

#[test]
fn the_servers_settings_work_at_their_bounds() {
    let server = RedisServer::start().unwrap();
    let least = |builder: RedisBuilder| {
        builder.prefix("x").key_secret(&[0; 16]).in_flight_max(1).breaker(1, MS).clock_step(MS)
    };
    let most = |builder: RedisBuilder| {
        let builder =
            builder.deadline(MINUTE).connect_deadline(MINUTE).clock_step(24 * 60 * MINUTE);
        builder.prefix(&"x".repeat(32)).in_flight_max(1 << 20).breaker(u32::MAX, MINUTE)
    };
    for builder in [least(patient(&server.url())), most(patient(&server.url()))] {
        let redis = builder.build().unwrap();
        let limiter = redis.limiter(policy("api", 3, 60_000)).build().unwrap();
        runtime().block_on(async {
            assert!(!limiter.check("alice").await.is_degraded());
        });
    }
    // There is no reply, and the breaker opens for as long as it can.
    let redis = nowhere().breaker(1, MINUTE).build().unwrap();
    let limiter = redis.limiter(policy("api", 3, 60_000)).build().unwrap();
    runtime().block_on(async {
        for _ in 0..3 {
            assert!(limiter.check("alice").await.is_degraded());
        }
    });
    assert_eq!(limiter.stats().breaker_opened, 1);
}

// If this were detected only when the first decision is degraded, it would be detected in
// production.
#[test]
fn invalid_addresses_are_rejected() {
    let long_gone = "redis://127.0.0.1:1";
    let none: [&str; 0] = [];
    for result in [Redis::cluster(&none), Redis::sentinel(&none, "service")] {
        refused_address(result, &["no Redis address"]);
    }
    for wrong in ["", "127.0.0.1", "http://127.0.0.1", "redis://:hunter2@host:port", "redis://h/db"]
    {
        refused_address(Redis::single(wrong), &["redis://", "rediss://", "unix://"]);
        refused_address(Redis::cluster(&[long_gone, wrong]), &["redis://"]);
    }
    // Members of a cluster, and primaries, report their addresses as host and port.
    for result in [
        Redis::cluster(&[long_gone, "unix:///run/redis.sock"]),
        Redis::sentinel(&["unix:///run/redis.sock"], "service"),
    ] {
        refused_address(result, &["/run/redis.sock", "redis://"]);
    }
    let numbered = [
        Redis::cluster(&["redis://127.0.0.1:1/3"]).unwrap(),
        Redis::cluster(&[long_gone]).unwrap().database(3),
    ];
    for builder in numbered {
        refused(builder.build().map(|_| ()), &["database 3", "cluster", "0"]);
    }
    assert!(Redis::cluster(&[long_gone]).unwrap().database(0).build().is_ok());
}

fn refused_address(result: Result<RedisBuilder, Error>, parts: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    assert!(!error.to_string().contains("hunter2"), "{error}");
    for part in parts {
        assert!(error.to_string().contains(part), "{part:?} is not in: {error}");
    }
}

#[test]
fn a_limiters_settings_have_bounds() {
    let redis = nowhere().build().unwrap();
    let refused = |set: &dyn Fn(RedisLimiterBuilder) -> RedisLimiterBuilder, parts: &[&str]| {
        let local = Policy::builder("api").quota(Quota::per_minute(9));
        let local = local.failure_mode(FailureMode::Local).build().unwrap();
        refused(set(redis.limiter(local)).build().map(|_| ()), parts);
    };
    for wrong in
        [Duration::ZERO, Duration::from_micros(99), Duration::from_nanos(1_500_100), 2 * SECOND]
    {
        refused(&|builder| builder.tick(wrong), &["tick", &format!("{wrong:?}"), "1 second"]);
    }
    for wrong in [0.0, -0.5, 1.01, f64::NAN, f64::INFINITY] {
        let value = wrong.to_string();
        refused(
            &|builder| builder.guard_band(wrong),
            &["guard band", &value, "more than 0, up to 1"],
        );
    }
    refused(&RedisLimiterBuilder::secret_keys, &["secret", "key_secret"]);
    for wrong in [0, 1_000_001] {
        let value = wrong.to_string();
        refused(&|builder| builder.nodes(wrong), &["nodes", &value, "1 to 1000000"]);
    }
    refused(&|builder| builder.deny_cache((1 << 24) + 1), &["16777217", "16777216"]);
    for wrong in [Duration::ZERO, MS / 2, SECOND + MS] {
        refused(&|builder| builder.leases(wrong), &["lease", &format!("{wrong:?}"), "1 s"]);
    }
    for set in [
        |builder: RedisLimiterBuilder| builder.leases(MS).lease_share(0),
        // In any order.
        |builder: RedisLimiterBuilder| builder.lease_share(0).leases(MS),
        |builder: RedisLimiterBuilder| builder.lease_share(0),
    ] {
        refused(&set, &["lease share", "0", "1 or more"]);
    }
    refused(&|builder| builder.local_memory(1), &["1"]);
    for algorithm in [Algorithm::Counter, Algorithm::Fixed, Algorithm::Segments { count: 4 }] {
        let policy = Policy::builder("api").quota(Quota::per_minute(9));
        let policy = policy.algorithm(algorithm).build().unwrap();
        let error = redis.limiter(policy).leases(5 * MS).build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("use Log or Gcra"), "{error}");
    }
}

// The largest numbers: larger ones are rejected by their constructors, and these are counted
// exactly.
#[test]
fn the_largest_policy_is_counted_to_the_unit() {
    assert_eq!(Quota::new(UNITS_MAX + 1, MINUTE).unwrap_err().kind(), ErrorKind::Limit);
    assert_eq!(Quota::new(1, TEN_YEARS + MS).unwrap_err().kind(), ErrorKind::Window);
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let algorithms = [
        Algorithm::Log,
        Algorithm::LogCapped { bytes_max: 64 },
        Algorithm::Counter,
        Algorithm::Segments { count: 1024 },
        Algorithm::Fixed,
        Algorithm::Gcra,
    ];
    runtime().block_on(async {
        for (number, algorithm) in algorithms.into_iter().enumerate() {
            for tick in [Duration::from_micros(100), SECOND] {
                let name = format!("p{number}-{}", tick.as_micros());
                let quotas = [Quota::new(UNITS_MAX, TEN_YEARS).unwrap(); 8];
                let policy = Policy::builder(&name).quotas(quotas).algorithm(algorithm);
                let builder = redis.limiter(policy.build().unwrap()).tick(tick);
                let limiter = builder.deny_cache(0).build().unwrap();
                let check = async |units: u64| {
                    let decision = limiter.check_cost("alice", Cost::new(units).unwrap()).await;
                    assert!(!decision.is_degraded(), "{name}");
                    (decision.is_allowed(), decision.remaining())
                };
                if algorithm == Algorithm::Gcra {
                    // A bucket of this size refills by 28 million units per second.
                    assert!(check(UNITS_MAX).await.0, "{name}");
                    assert!(!check(UNITS_MAX).await.0, "{name}");
                    continue;
                }
                assert_eq!(check(UNITS_MAX - 2).await, (true, 2), "{name}");
                assert_eq!(check(1).await, (true, 1), "{name}");
                assert_eq!(check(2).await, (false, 1), "{name}");
                assert_eq!(check(1).await, (true, 0), "{name}");
                assert_eq!(check(UNITS_MAX).await, (false, 0), "{name}");
            }
        }
    });
    let ttl_most = 2 * TEN_YEARS + 120 * MINUTE;
    for (key, ttl) in common::keys(&server) {
        assert!(ttl > 0 && u128::from(ttl.unsigned_abs()) < ttl_most.as_millis(), "{key}: {ttl}");
    }
}

#[test]
fn tiers_that_do_not_fit_are_rejected() {
    let redis = nowhere().build().unwrap();
    let quotas = |count: usize| vec![Quota::per_minute(5); count];
    for (algorithm, fits) in [
        (Algorithm::Log, [false, true, true, false]),
        (Algorithm::LogCapped { bytes_max: 64 }, [false, true, true, false]),
        (Algorithm::Counter, [false, false, true, false]),
        (Algorithm::Segments { count: 4 }, [false, false, true, false]),
        (Algorithm::Gcra, [false, false, true, false]),
        (Algorithm::Fixed, [false, false, true, false]),
    ] {
        let policy = Policy::builder("api").quotas(quotas(2)).algorithm(algorithm);
        let limiter = redis.limiter(policy.build().unwrap()).build().unwrap();
        for (count, fits) in fits.into_iter().enumerate() {
            let tier = limiter.tier(&quotas(count));
            assert_eq!(tier.is_ok(), fits, "{algorithm:?}, {count} quotas");
            if let Err(error) = tier {
                assert_eq!(error.kind(), ErrorKind::Policy);
                let text = error.to_string();
                let parts = [&format!("{count} quotas"), "\"api\" of 2", "as many"];
                assert!(parts.iter().all(|part| text.contains(*part)), "{text}");
            }
        }
    }
}
