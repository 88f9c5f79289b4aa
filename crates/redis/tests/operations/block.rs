//! Blocked keys in Redis. The traces `*-block` compare them with memory.
//!
//! What could go wrong: a block that another process does not see, a lease or a cached decision that
//! outlives it, a state that is lost when the block ends, a key without a TTL.

use std::sync::Arc;
use std::time::Duration;

use slidegate::{Algorithm, Cost, Decision, FailureMode, Quota, RetryAfter};
use slidegate_redis::{Redis, RedisAsk, check_all};
use slidegate_testkit::server::{AcceptMode, Proxy, RedisServer};

use super::common::{crew, eventually, failing, keys, patient, runtime};
use super::{ALGORITHMS, Stores, policy};

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn a_block_is_seen_by_other_processes_and_keeps_what_the_key_used() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        for algorithm in ALGORITHMS {
            let policy =
                policy(&format!("seen-{}", algorithm.name()), Quota::per_hour(5), algorithm);
            let [one, other] = [0; 2].map(|_| {
                let redis = patient(&server.url()).build().unwrap();
                redis.limiter(policy.clone()).build().unwrap()
            });
            let receipt = one.check_cost("k", Cost::new(2).unwrap()).await.into_receipt().unwrap();
            assert!(one.check("k").await.is_allowed());
            one.block("k", HOUR).await.unwrap();
            for limiter in [&one, &other] {
                for _ in 0..3 {
                    let decision = limiter.check("k").await;
                    assert!(decision.is_blocked() && !decision.is_allowed(), "{algorithm:?}");
                    let RetryAfter::After(wait) = decision.retry_after() else { panic!() };
                    assert!(wait > HOUR / 2, "{wait:?}");
                    assert_eq!(decision.remaining(), 0);
                }
                assert!(limiter.check_at_most("k", Cost::ONE).await.is_blocked());
                assert!(limiter.peek("k").await.unwrap().is_blocked());
                assert_eq!(limiter.usage("k").await.unwrap().units(0), 3, "{algorithm:?}");
            }
            assert_eq!(other.refund("k", receipt).await.unwrap(), 2, "{algorithm:?}");
            assert_eq!(other.charge("k", 1).await.unwrap(), 1);
            assert!(keys(&server).iter().all(|(_, ttl)| *ttl > 0), "{:?}", keys(&server));
            assert!(one.unblock("k").await.unwrap());
            assert!(!one.unblock("k").await.unwrap());
            assert_eq!(one.usage("k").await.unwrap().units(0), 2, "{algorithm:?}");
            let decision = one.check("k").await;
            assert!(decision.is_allowed() && !decision.is_blocked());
            // A long log, and a block of a key that is blocked already.
            one.block("k", HOUR).await.unwrap();
            one.block("k", Duration::from_millis(100)).await.unwrap();
            eventually("the end of the block", async || !one.peek("k").await.unwrap().is_blocked())
                .await;
            assert_eq!(other.usage("k").await.unwrap().units(0), 3, "{algorithm:?}");
            assert!(other.check("k").await.is_allowed());
            assert_eq!(one.usage("k").await.unwrap().units(0), 4, "{algorithm:?}");
            // Nothing is left of the block.
            eventually("no state of a block", async || {
                keys(&server).iter().all(|(name, _)| !name.ends_with(";b"))
            })
            .await;
        }
    });
}

#[test]
fn a_long_log_survives_its_block() {
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let policy = policy("long", Quota::per_hour(5000), Algorithm::Log);
        let Stores { stores, clock } = Stores::new(&server, &policy);
        let target = slidegate::Target::new(b"k", slidegate::Quotas::Policy);
        for round in 0..3 {
            for step in 0..400 {
                clock.advance(Duration::from_millis(1 + (step * 7919) % 2000));
                for store in &stores {
                    let _ = store.check(target, Cost::ONE).await.unwrap();
                }
            }
            for store in &stores {
                store.block(b"k", Duration::from_secs(5)).await.unwrap();
                store.charge(target, 3).await.unwrap();
                if round == 1 {
                    assert!(store.unblock(b"k").await.unwrap());
                }
            }
            clock.advance(Duration::from_secs(6));
            let histories = [stores[0].history(target).await, stores[1].history(target).await];
            assert_eq!(histories[0].as_ref().unwrap(), histories[1].as_ref().unwrap());
        }
    });
}

#[test]
fn a_block_ends_leases_and_denies_in_batches_and_together_with_other_keys() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let redis = patient(&server.url()).build().unwrap();
        let policy = policy("leased", Quota::per_hour(10_000), Algorithm::Log);
        let limiter = redis.limiter(policy).leases(Duration::from_secs(1)).build().unwrap();
        for _ in 0..100 {
            assert!(limiter.check("k").await.is_allowed());
        }
        assert!(limiter.stats().leased_here > 0);
        limiter.block("k", HOUR).await.unwrap();
        for _ in 0..20 {
            assert!(limiter.check("k").await.is_blocked());
        }
        eventually("unused units", async || limiter.usage("k").await.unwrap().units(0) == 100)
            .await;
        let mut decisions = Vec::new();
        limiter.check_many(&["a", "k", "b"], Cost::ONE, &mut decisions).await;
        let blocked: Vec<bool> = decisions.iter().map(Decision::is_blocked).collect();
        assert_eq!(blocked, [false, true, false]);
        let asks = ["c", "k"].map(|key| RedisAsk::new(&limiter, key, Cost::ONE));
        // The keys are of one call without a cluster, so that nothing is taken from the other key.
        assert!(!check_all(&asks).await.unwrap().iter().any(Decision::is_allowed));
        assert_eq!(limiter.usage("c").await.unwrap().units(0), 0);
        let wait = limiter.wait_timeout("k", Cost::ONE, 2 * HOUR).await.unwrap();
        assert!(wait.is_blocked());
        assert!(limiter.reset("k").await.unwrap());
        assert!(limiter.check("k").await.is_allowed());
    });
}

#[test]
fn without_redis_the_local_limiter_denies_blocked_keys() {
    let server = RedisServer::start().unwrap();
    crew().block_on(async {
        let proxy = Proxy::in_front_of(&server).unwrap();
        let policy =
            failing(&policy("away", Quota::per_hour(100), Algorithm::Log), FailureMode::Local);
        let redis = Redis::single(proxy.url()).unwrap();
        let limiter = Arc::new(redis.build().unwrap().limiter(policy).build().unwrap());
        for key in ["here", "there", "ended", "together"] {
            eventually("Redis", async || !limiter.check(key).await.is_degraded()).await;
        }
        limiter.block("here", HOUR).await.unwrap();
        // Another process blocks a key, and this one sees it; and ends a block that this one has seen.
        let other = patient(&server.url()).build().unwrap();
        let other = other.limiter(limiter.policy().clone()).build().unwrap();
        for key in ["there", "ended", "together"] {
            other.block(key, HOUR).await.unwrap();
            eventually("the block", async || limiter.check(key).await.is_blocked()).await;
        }
        let asks = ["free", "together"].map(|key| RedisAsk::new(&*limiter, key, Cost::ONE));
        let decisions = check_all(&asks).await.unwrap();
        let blocked: Vec<bool> = decisions.iter().map(Decision::is_blocked).collect();
        assert_eq!(blocked, [false, true], "{decisions:?}");
        other.unblock("ended").await.unwrap();
        eventually("the end of the block", async || limiter.check("ended").await.is_allowed())
            .await;
        proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        proxy.close_all();
        eventually("the outage", async || limiter.check("free").await.is_degraded()).await;
        let keys = [("here", true), ("there", true), ("ended", false), ("together", true)];
        for (key, is_blocked) in keys {
            eventually("a decision without Redis", async || {
                let decision = limiter.check(key).await;
                decision.is_degraded() && decision.is_blocked() == is_blocked
            })
            .await;
        }
        let decisions = check_all(&asks).await.unwrap();
        assert!(decisions.iter().all(|decision| decision.is_degraded() && !decision.is_allowed()));
        let blocked: Vec<bool> = decisions.iter().map(Decision::is_blocked).collect();
        assert_eq!(blocked, [false, true], "{decisions:?}");
    });
}
