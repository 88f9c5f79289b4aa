//! Quotas that come with a request.
//!
//! What could go wrong: a limit of one request that applies to the next, a denial with a small
//! limit that the deny cache repeats with a large one, units of a long window dropped by a short
//! one.

use std::time::Duration;

use slidegate::{Algorithm, Cost, Decision, FailureMode, Quota, Quotas, Target};
use slidegate_redis::Redis;
use slidegate_testkit::server::RedisServer;

use super::common::{failing, patient, runtime};
use super::{ALGORITHMS, Stores, policy};

#[test]
fn quotas_of_a_request_decide_as_in_memory_and_as_a_tier_does() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in ALGORITHMS {
            let policy =
                policy(&format!("given-{}", algorithm.name()), Quota::per_hour(2), algorithm);
            let Stores { stores, clock } = Stores::new(&server, &policy);
            let large = [Quota::per_hour(6)];
            for _ in 0..8 {
                clock.advance(Duration::from_secs(60));
                let mut decided = Vec::new();
                for store in &stores {
                    let tier = store.tier(&large).unwrap();
                    for (key, quotas) in [
                        (b"given", Quotas::Given(&large)),
                        (b"tier?", Quotas::Tier(&tier)),
                        (b"plain", Quotas::Policy),
                    ] {
                        decided
                            .push(store.check(Target::new(key, quotas), Cost::ONE).await.unwrap());
                    }
                }
                let quotas: Vec<_> = decided.iter().map(Decision::quotas).collect();
                assert_eq!(quotas[0], quotas[1], "{algorithm:?}");
                assert_eq!(quotas[..3], quotas[3..], "{algorithm:?}");
            }
            for store in &stores {
                let given = Target::new(b"given", Quotas::Given(&large));
                assert!(!store.check(given, Cost::ONE).await.unwrap().is_allowed());
                assert_eq!(store.usage(given).await.unwrap().units(0), 6);
            }
        }
    });
}

#[test]
fn quotas_that_do_not_fit_the_policy_are_an_error() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let policy = policy("fit", Quota::per_hour(2), Algorithm::Gcra);
        for store in Stores::new(&server, &policy).stores {
            for quotas in [&[][..], &[Quota::per_hour(2), Quota::per_day(3)]] {
                let target = Target::new(b"k", quotas);
                let error = store.check(target, Cost::ONE).await.unwrap_err();
                assert!(error.to_string().contains("does not fit policy"), "{error}");
            }
        }
    });
}

#[test]
fn a_cached_denial_of_one_limit_does_not_deny_under_another() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        let policy = policy("cached", Quota::per_hour(2), Algorithm::Log);
        let limiter = redis.limiter(policy).deny_cache_cap(None).build().unwrap();
        let with = |limit| limiter.with_quotas(&[Quota::per_hour(limit)]).unwrap();
        assert!(with(1).check("k").await.is_allowed());
        assert!(!with(1).check("k").await.is_allowed());
        assert!(with(3).check("k").await.is_allowed());
        assert!(!limiter.check("k").await.is_allowed());
        assert!(!with(1).check("k").await.is_allowed());
        assert!(with(3).check("k").await.is_allowed());
        assert_eq!(limiter.usage("k").await.unwrap().units(0), 3);
    });
}

#[test]
fn without_redis_the_local_limiter_uses_the_quotas_of_the_request() {
    runtime().block_on(async {
        let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
        let policy = policy("local", Quota::per_hour(2), Algorithm::Log);
        let limiter = redis.limiter(failing(&policy, FailureMode::Local)).build().unwrap();
        let with = limiter.with_quotas(&[Quota::per_hour(5)]).unwrap();
        for _ in 0..5 {
            let decision = with.check("k").await;
            assert!(decision.is_allowed() && decision.is_degraded());
        }
        assert!(!with.check("k").await.is_allowed());
    });
}
