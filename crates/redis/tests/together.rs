//! Batches: concurrent checks share a call, with the same decisions.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{crew, failing, patient, policy, runtime};
use slidegate::{Algorithm, Decision, FailureMode, Policy, Quota};
use slidegate_redis::{Redis, RedisLimiter};
use slidegate_testkit::server::{PATIENCE, RedisServer};
use tokio::task::JoinSet;
use tokio::time::Instant;

const HOUR_MS: u64 = 3_600_000;

/// The algorithms whose checks are batched.
const BATCHED: [Algorithm; 4] =
    [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra, Algorithm::Fixed];

/// Returns a policy of `limit` per hour with a separate name.
fn by(algorithm: Algorithm, limit: u32) -> Policy {
    let policy = Policy::builder(&format!("{algorithm:?}"));
    policy.quota(Quota::per_hour(limit)).algorithm(algorithm).build().unwrap()
}

/// Runs `callers` checks at once, each with a key of the caller's choice.
async fn crowd(
    limiter: &Arc<RedisLimiter>,
    callers: usize,
    key: impl Fn(usize) -> String,
) -> Vec<(String, Decision)> {
    let mut tasks = JoinSet::new();
    for caller in 0..callers {
        let (limiter, key) = (Arc::clone(limiter), key(caller));
        tasks.spawn(async move {
            let decision = limiter.check(&key).await;
            (key, decision)
        });
    }
    tasks.join_all().await
}

fn allowed(decisions: &[(String, Decision)]) -> usize {
    decisions.iter().filter(|(_, decision)| decision.is_allowed()).count()
}

// Few calls, and the limit holds when hundreds of checks are decided in a few calls.
#[test]
fn many_callers_take_few_calls_and_get_the_limit() {
    for runtime in [runtime(), crew()] {
        runtime.block_on(async {
            let server = RedisServer::start().unwrap();
            let redis = patient(&server.url()).build().unwrap();
            for algorithm in BATCHED {
                let limiter = redis.limiter(by(algorithm, 100)).deny_cache(0).build().unwrap();
                let limiter = Arc::new(limiter);
                let _ = limiter.check("connects").await;
                let before = limiter.stats().calls;
                let decisions = crowd(&limiter, 500, |_| "k".to_owned()).await;
                assert_eq!(allowed(&decisions), 100, "{algorithm:?}");
                assert!(decisions.iter().all(|(_, decision)| !decision.is_degraded()));
                let calls = limiter.stats().calls - before;
                println!("{algorithm:?}: 500 checks in {calls} calls");
                assert!(calls <= 250, "{algorithm:?}: 500 checks took {calls} calls");
            }
        });
    }
}

// Checks that find no room, or whose replies wait for a busy runtime, must not pass by the failure
// mode: Redis replies all the time.
#[test]
fn a_backlog_of_this_process_lifts_no_limit_of_a_healthy_server() {
    const CHECKS: usize = 10_000;
    const DEADLINE: Duration = Duration::from_millis(500);
    let server = RedisServer::start().unwrap();
    for runtime in [runtime(), crew()] {
        for mode in [FailureMode::Allow, FailureMode::Deny, FailureMode::Local] {
            for in_flight_max in [None, Some(1), Some(2)] {
                let case = format!("{mode:?}, in_flight_max {in_flight_max:?}");
                let limiter = runtime.block_on(async {
                    // A busy machine may keep Redis itself from replying within 20 ms.
                    let mut redis = Redis::single(&server.url()).unwrap().deadline(DEADLINE);
                    if let Some(checks) = in_flight_max {
                        redis = redis.in_flight_max(checks);
                    }
                    let redis = redis.build().unwrap();
                    redis.connect(PATIENCE).await.unwrap();
                    let quota = failing(&policy("backlog", 100, HOUR_MS), mode);
                    Arc::new(redis.limiter(quota).build().unwrap())
                });
                let key = format!("{:?} {case}", runtime.metrics().num_workers());
                let decisions = runtime.block_on(crowd(&limiter, CHECKS, |_| key.clone()));
                let degraded = decisions.iter().filter(|(_, of)| of.is_degraded()).count();
                println!("{case}: {} allowed, {degraded} degraded", allowed(&decisions));
                assert_eq!(allowed(&decisions), 100, "{case}: {degraded} degraded");
            }
        }
    }
}

#[test]
fn batching_can_be_disabled() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).checks_per_call_max(1).build().unwrap();
        let limiter = redis.limiter(policy("alone", 100, HOUR_MS)).deny_cache(0).build().unwrap();
        let limiter = Arc::new(limiter);
        let _ = limiter.check("loads the script").await;
        let before = limiter.stats().calls;
        let decisions = crowd(&limiter, 200, |_| "k".to_owned()).await;
        assert_eq!((allowed(&decisions), limiter.stats().calls - before), (100, 200));
    });
}

// A reply to the wrong caller would let one user spend the units of another.
#[test]
fn each_caller_gets_the_decision_of_its_key() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let limiter = redis.limiter(policy("each", 100, HOUR_MS)).build().unwrap();
        let limiter = Arc::new(limiter);
        // The usage of each key equals its number.
        for key in 0..40_u64 {
            for _ in 0..key {
                let _ = limiter.check(key.to_string()).await;
            }
        }
        for round in 1..=10_u64 {
            let decisions = crowd(&limiter, 40, |caller| caller.to_string()).await;
            for (key, decision) in decisions {
                let gone = key.parse::<u64>().unwrap() + round;
                assert_eq!(decision.remaining(), 100 - gone, "{key} in round {round}");
            }
        }
    });
}

// A check that the fast path cannot decide is sent again alone: one key has another type, and the
// others must not be affected.
#[test]
fn wrong_type_key_does_not_fail_its_batch() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let limiter = redis.limiter(failing(&policy("bad", 100, HOUR_MS), FailureMode::Deny));
        let limiter = Arc::new(limiter.deny_cache(0).build().unwrap());
        let _ = limiter.check("7").await;
        let mut connection = server.connection().unwrap();
        let names: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
        redis::cmd("DEL").arg(&names).exec(&mut connection).unwrap();
        redis::cmd("RPUSH").arg(&names).arg("x").exec(&mut connection).unwrap();
        for _ in 0..5 {
            for (key, decision) in crowd(&limiter, 40, |caller| caller.to_string()).await {
                assert_eq!(decision.is_degraded(), key == "7", "{key}");
                assert_eq!(decision.is_allowed(), key != "7", "{key}");
            }
        }
    });
}

// Memory is full: nothing can be counted, but keys over their limit stay denied, also in one call
// with keys whose first request cannot be written.
#[test]
fn a_full_server_still_denies_keys_over_their_limit() {
    crew().block_on(async {
        let server = RedisServer::builder().max_memory(0, "noeviction").start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        for algorithm in BATCHED {
            let mut connection = server.connection().unwrap();
            let mut memory = |bytes: u64| {
                let mut set = redis::cmd("CONFIG");
                set.arg("SET").arg("maxmemory").arg(bytes).exec(&mut connection).unwrap();
            };
            let policy = failing(&by(algorithm, 3), FailureMode::Allow);
            let limiter = Arc::new(redis.limiter(policy).deny_cache(0).build().unwrap());
            for _ in 0..3 {
                assert!(!limiter.check("over").await.is_degraded());
            }
            memory(1);
            let key = |caller: usize| match caller % 2 {
                0 => "over".to_owned(),
                _ => format!("new-{caller}"),
            };
            for (key, decision) in crowd(&limiter, 60, key).await {
                let is_over = key == "over";
                assert_eq!(decision.is_degraded(), !is_over, "{algorithm:?} {key}");
                assert_eq!(decision.is_allowed(), !is_over, "{algorithm:?} {key}");
            }
            memory(0);
            assert_eq!(limiter.stats().unknown, 0, "a full server says that it did nothing");
        }
    });
}

// A cluster node that is used as a single server rejects keys of several slots in one call: each is
// then sent alone.
#[test]
fn keys_of_several_slots_are_sent_alone() {
    crew().block_on(async {
        let server = RedisServer::builder().cluster_node().start().unwrap();
        let mut connection = server.connection().unwrap();
        let slots: Vec<u16> = (0..16_384).collect();
        let mut add = redis::cmd("CLUSTER");
        add.arg("ADDSLOTS").arg(slots).exec(&mut connection).unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let limiter = redis.limiter(policy("slots", 10, HOUR_MS)).build().unwrap();
        let limiter = Arc::new(limiter);
        common::eventually("an answer", async || !limiter.check("k").await.is_degraded()).await;
        let decisions = crowd(&limiter, 60, |caller| caller.to_string()).await;
        assert!(decisions.iter().all(|(_, decision)| !decision.is_degraded()));
        assert!(decisions.iter().all(|(_, decision)| decision.remaining() == 9));
    });
}

// A server that has lost its scripts did nothing: the text is sent, and all count once.
#[test]
fn a_server_that_forgets_its_scripts_counts_all_once() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let limiter = redis.limiter(policy("flushed", 10_000, HOUR_MS)).build().unwrap();
        let limiter = Arc::new(limiter);
        let mut connection = server.connection().unwrap();
        for _ in 0..10 {
            redis::cmd("SCRIPT").arg("FLUSH").exec(&mut connection).unwrap();
            let decisions = crowd(&limiter, 100, |_| "k".to_owned()).await;
            assert!(decisions.iter().all(|(_, decision)| !decision.is_degraded()));
        }
        assert_eq!(limiter.usage("k").await.unwrap().units(0), 1000);
        assert!(limiter.stats().scripts_sent >= 10);
    });
}

// A dropped caller must not leave the others waiting forever, nor void their replies.
#[test]
fn dropped_callers_do_not_affect_others() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let limiter = redis.limiter(policy("leavers", 100_000, HOUR_MS)).build().unwrap();
        let limiter = Arc::new(limiter);
        for _ in 0..50 {
            let mut tasks = JoinSet::new();
            let leavers: Vec<_> = (0..50)
                .map(|caller| {
                    let limiter = Arc::clone(&limiter);
                    let staying = caller % 2 == 0;
                    let task = async move { limiter.check("k").await.is_allowed() };
                    let handle = tasks.spawn(task);
                    (!staying).then_some(handle)
                })
                .collect();
            tokio::task::yield_now().await;
            leavers.iter().flatten().for_each(tokio::task::AbortHandle::abort);
            let mut stayed = 0;
            while let Some(ended) = tasks.join_next().await {
                stayed += u32::from(ended.is_ok_and(|allowed| allowed));
            }
            assert!(stayed >= 25, "{stayed} of the remaining callers had a reply");
        }
        assert_eq!(limiter.stats().degraded, 0);
        // Dropped callers may have been charged, the others have been, and none twice.
        let used = limiter.usage("k").await.unwrap().units(0);
        assert!((50 * 25..=50 * 50).contains(&used), "{used} units were taken");
    });
}

// All callers that wait for a server that hangs get a decision in time, each counted.
#[test]
fn a_server_that_hangs_delays_no_batch() {
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let deadline = Duration::from_millis(200);
        let redis = Redis::single(&server.url()).unwrap().deadline(deadline).build().unwrap();
        let policy = failing(&policy("hung", 100_000, HOUR_MS), FailureMode::Allow);
        let limiter = Arc::new(redis.limiter(policy).build().unwrap());
        common::eventually("an answer", async || !limiter.check("k").await.is_degraded()).await;
        let before = limiter.stats();
        server.suspend().unwrap();
        let asked = Instant::now();
        let decisions = crowd(&limiter, 300, |_| "k".to_owned()).await;
        let took = asked.elapsed();
        server.resume().unwrap();
        assert!(decisions.iter().all(|(_, decision)| decision.is_degraded()));
        // The time that a busy machine may add. The goal is a few milliseconds.
        assert!(took < deadline + Duration::from_secs(1), "the last one waited for {took:?}");
        let after = limiter.stats();
        assert_eq!(after.degraded - before.degraded, 300);
        // Each check that was sent may have been counted; checks after the breaker opened were not
        // sent.
        let unknown = after.unknown - before.unknown;
        assert!((5..=300).contains(&unknown), "{unknown} of 300 are unknown");
    });
}
