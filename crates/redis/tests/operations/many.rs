//! Batches of independent checks.
//!
//! What could go wrong: a decision for another key, a denial that denies the others, a batch that
//! waits for one deadline per call, or one that takes as many calls as keys.

use std::time::Duration;

use slidegate::{Algorithm, Cost, Decision, FailureMode, Limiter, Policy, Quota, Quotas, Target};
use slidegate_redis::Redis;
use slidegate_testkit::server::{Cluster, RedisServer};

use super::common::{eventually, failing, patient, runtime};
use super::{ALGORITHMS, Stores, policy};

fn names(count: usize) -> Vec<String> {
    (0..count).map(|key| format!("key-{key}")).collect()
}

fn remaining(decisions: &[Decision]) -> Vec<u64> {
    decisions.iter().map(Decision::remaining).collect()
}

#[test]
fn many_checks_are_decided_as_in_memory_by_every_algorithm() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in ALGORITHMS {
            let policy =
                policy(&format!("same-{}", algorithm.name()), Quota::per_hour(5), algorithm);
            let Stores { stores, clock } = Stores::new(&server, &policy);
            let keys = names(40);
            for round in 0..7 {
                clock.advance(Duration::from_secs(1));
                let mut decided = Vec::new();
                for store in &stores {
                    let gold = store.tier(&[Quota::per_hour(6)]).unwrap();
                    // Every third key has a tier. The first key occurs twice.
                    let target = |(place, key)| {
                        let quotas =
                            if place % 3 == 2 { Quotas::Tier(&gold) } else { Quotas::Policy };
                        Target::new(key, quotas)
                    };
                    let all = keys.iter().chain([&keys[0]]).map(String::as_bytes);
                    let targets: Vec<Target<'_>> = all.enumerate().map(target).collect();
                    decided.push(store.check_many(&targets, Cost::ONE).await.unwrap());
                }
                for (memory, shared) in decided[0].iter().zip(&decided[1]) {
                    assert_eq!(memory.quotas(), shared.quotas(), "{algorithm:?}, round {round}");
                    assert_eq!(memory.outcome(), shared.outcome(), "{algorithm:?}, round {round}");
                }
                assert_eq!(decided[0].len(), decided[1].len());
                assert!(!decided[1].iter().any(Decision::is_degraded));
            }
        }
    });
}

#[test]
fn many_keys_take_few_calls_and_keep_their_order() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        let policy = policy("order", Quota::per_hour(100), Algorithm::Log);
        let limiter = redis.limiter(policy).build().unwrap();
        let keys = names(100);
        for (place, key) in keys.iter().enumerate().skip(1) {
            let _ = limiter.check_cost(key, Cost::new(place as u64).unwrap()).await;
        }
        let (before, mut decisions) = (limiter.stats().calls, Vec::new());
        limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
        let expected: Vec<u64> = (0..100).map(|place| 99 - place).collect();
        assert_eq!(remaining(&decisions), expected);
        assert!(decisions.iter().all(Decision::is_allowed));
        // 32 checks per call, and one call more that sends the text of the script.
        let calls = limiter.stats().calls - before;
        assert!((4..=8).contains(&calls), "{calls} calls");
    });
}

#[test]
fn a_key_that_occurs_often_gets_its_limit_and_the_others_theirs() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        for algorithm in ALGORITHMS {
            let policy =
                policy(&format!("often-{}", algorithm.name()), Quota::per_hour(10), algorithm);
            let limiter = redis.limiter(policy).build().unwrap();
            let mut keys = vec!["often".to_owned(); 50];
            keys.extend(names(5));
            let mut decisions = Vec::new();
            limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
            let allowed = decisions[..50].iter().filter(|decision| decision.is_allowed()).count();
            assert_eq!(allowed, 10, "{algorithm:?}");
            assert!(decisions[50..].iter().all(Decision::is_allowed), "{algorithm:?}");
        }
    });
}

#[test]
fn many_keys_of_a_cluster_are_decided_on_their_nodes() {
    let cluster = Cluster::start(&RedisServer::builder()).unwrap();
    let long = Duration::from_secs(10);
    runtime().block_on(async {
        let redis = Redis::cluster(&cluster.urls()).unwrap().deadline(long).connect_deadline(long);
        let redis = redis.build().unwrap();
        let policy = policy("cluster", Quota::per_hour(3), Algorithm::Log);
        let limiter = redis.limiter(policy).deny_cache(0).build().unwrap();
        eventually("a decision", async || !limiter.check("first").await.is_degraded()).await;
        // Each key twice: keys of one slot share a call.
        let keys: Vec<String> = names(60).into_iter().chain(names(60)).collect();
        let mut decisions = Vec::new();
        for allowed in [120, 60, 0] {
            limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
            assert!(!decisions.iter().any(Decision::is_degraded));
            assert_eq!(decisions.iter().filter(|d| d.is_allowed()).count(), allowed);
        }
    });
}

#[test]
fn a_batch_without_a_server_is_decided_by_the_failure_mode_within_one_deadline() {
    let mut server = RedisServer::start().unwrap();
    let deadline = Duration::from_millis(300);
    runtime().block_on(async {
        let redis = Redis::single(&server.url()).unwrap().deadline(deadline);
        let redis = redis.breaker(1000, Duration::from_millis(100)).build().unwrap();
        let policy = policy("hung", Quota::per_hour(3), Algorithm::Log);
        let limiter = redis.limiter(failing(&policy, FailureMode::Deny)).build().unwrap();
        eventually("a decision", async || !limiter.check("k").await.is_degraded()).await;
        server.suspend().unwrap();
        let (began, mut decisions) = (tokio::time::Instant::now(), Vec::new());
        limiter.check_many(&names(200), Cost::ONE, &mut decisions).await;
        let took = began.elapsed();
        server.resume().unwrap();
        assert_eq!(decisions.len(), 200);
        assert!(decisions.iter().all(|decision| decision.is_degraded() && !decision.is_allowed()));
        // Seven calls one after the other would take 2.1 s. A busy machine may add something.
        assert!(took < deadline * 5, "{took:?}");
    });
}

#[test]
fn a_batch_uses_the_deny_cache_and_leases() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        let policy = policy("cached", Quota::per_hour(2), Algorithm::Log);
        let limiter = redis.limiter(policy).deny_cache_cap(None).build().unwrap();
        let keys = names(10);
        let mut decisions = Vec::new();
        for _ in 0..3 {
            limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
        }
        assert!(!decisions.iter().any(Decision::is_allowed));
        let before = limiter.stats().calls;
        limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
        assert!(!decisions.iter().any(Decision::is_allowed));
        assert_eq!(limiter.stats().calls, before);

        let policy = super::policy("leased", Quota::per_hour(10_000), Algorithm::Log);
        let limiter = redis.limiter(policy).leases(Duration::from_secs(1)).build().unwrap();
        let hot = vec!["hot"; 20];
        for _ in 0..5 {
            limiter.check_many(&hot, Cost::ONE, &mut decisions).await;
            assert!(decisions.iter().all(Decision::is_allowed));
        }
        let stats = limiter.stats();
        assert!(stats.leases > 0 && stats.leased_here > 0, "{stats:?}");
    });
}

#[test]
fn a_foreign_tier_fails_the_batch_before_anything_is_taken() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let policy = policy("foreign", Quota::per_hour(3), Algorithm::Log);
        let other = Limiter::new(Policy::new("other", Quota::per_hour(3)).unwrap()).unwrap();
        let foreign = other.tier(&[Quota::per_hour(9)]).unwrap();
        for store in Stores::new(&server, &policy).stores {
            let own = Target::new(b"a", Quotas::Policy);
            let targets = [own, Target::new(b"b", &foreign)];
            assert!(store.check_many(&targets, Cost::ONE).await.is_err());
            assert_eq!(store.usage(own).await.unwrap().units(0), 0);
        }
    });
}
