//! Redis hangs, crashes and recovers, and replies are lost: every caller gets a decision in time,
//! and nothing is counted twice.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::print_stdout, reason = "a test prints its measurements")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{crew, eventually, failing, patient, policy, runtime};
use slidegate::{Decision, DegradedReason, FailureMode};
use slidegate_redis::{BreakerState, Redis, RedisLimiter};
use slidegate_testkit::server::{Proxy, RedisServer, ReplyFault};
use tokio::task::JoinSet;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_millis(200);

/// The time that a busy machine may add to a deadline. The goal is a few milliseconds.
const SLACK: Duration = Duration::from_secs(1);

const HOUR_MS: u64 = 3_600_000;

/// Runs one check in each of `callers` tasks at once. Returns the decisions, and the longest wait.
async fn crowd(limiter: &Arc<RedisLimiter>, callers: usize) -> (Vec<Decision>, Duration) {
    let mut tasks = JoinSet::new();
    for _ in 0..callers {
        let limiter = Arc::clone(limiter);
        tasks.spawn(async move {
            let asked = Instant::now();
            let decision = limiter.check("k").await;
            (decision, asked.elapsed())
        });
    }
    let answers = tasks.join_all().await;
    let slowest = answers.iter().map(|(_, time)| *time).max().unwrap();
    (answers.into_iter().map(|(decision, _)| decision).collect(), slowest)
}

fn allowed(decisions: &[Decision]) -> usize {
    decisions.iter().filter(|decision| decision.is_allowed()).count()
}

/// Returns the units that Redis counts for a key, with a separate limiter and a long deadline.
async fn used(server: &RedisServer, name: &str, key: &str) -> u64 {
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy(name, 1_000_000, HOUR_MS)).build().unwrap();
    limiter.usage(key).await.unwrap().units(0)
}

// A limiter that waits for a hung server hangs the service; one that never calls it again stays
// degraded; one that calls it all the time makes every request slow.
#[test]
fn a_server_that_hangs_delays_no_caller_and_recovers() {
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let limiter = |name: &str, mode| {
            let redis = Redis::single(&server.url()).unwrap().deadline(DEADLINE).build().unwrap();
            let quota = failing(&policy(name, 40, HOUR_MS), mode);
            Arc::new(redis.limiter(quota).build().unwrap())
        };
        let limiters = [
            limiter("allow", FailureMode::Allow),
            limiter("deny", FailureMode::Deny),
            limiter("local", FailureMode::Local),
        ];
        for limiter in &limiters {
            // The first check has to connect, which may be late on a busy machine.
            eventually("an answer", async || !limiter.check("k").await.is_degraded()).await;
        }
        server.suspend().unwrap();
        for limiter in &limiters {
            hung(limiter).await;
        }
        server.resume().unwrap();

        for limiter in &limiters {
            let name = limiter.policy().name();
            let mut asked = 0;
            let normal = async || {
                // Another key each time: the local limiter may deny one that is checked too often.
                asked += 1;
                let undegraded = !limiter.check(format!("other-{asked}")).await.is_degraded();
                undegraded && limiter.stats().breaker == BreakerState::Closed
            };
            let took = eventually("Redis is asked again", normal).await;
            println!("{name}: normal again {took:?} after the server went on");
            // Calls to the hung server may have been counted, once each.
            let unknown = limiter.stats().unknown;
            let used = used(&server, name, "k").await;
            assert!((1..=1 + unknown).contains(&used), "{name}: {used} used, {unknown} unknown");
        }
    });
}

/// Asserts the behavior of one limiter while the server hangs.
async fn hung(limiter: &Arc<RedisLimiter>) {
    const CALLERS: usize = 60;
    let (name, before) = (limiter.policy().name(), limiter.stats());
    let (decisions, slowest) = crowd(limiter, CALLERS).await;
    println!("{name}: {CALLERS} callers, the slowest answered after {slowest:?} of {DEADLINE:?}");
    assert!(slowest <= DEADLINE + SLACK, "{name}: {slowest:?}");
    assert!(decisions.iter().all(Decision::is_degraded), "{name}");
    assert_modes(limiter, &decisions, before.decisions);

    let stats = limiter.stats();
    assert_eq!(stats.breaker_opened, before.breaker_opened + 1, "{name}: {stats:?}");
    assert!(stats.timeouts >= 1 && stats.unknown >= 5, "{name}: {stats:?}");

    // Open: at most an occasional probe is sent.
    let (asked, began) = (stats.calls, Instant::now());
    let mut slowest = Duration::ZERO;
    for _ in 0..200 {
        let asked = Instant::now();
        assert!(limiter.check("k").await.is_degraded());
        slowest = slowest.max(asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let (probes, took) = (limiter.stats().calls - asked, began.elapsed());
    println!("{name}: 200 checks in {took:?}, {probes} of them probes, slowest {slowest:?}");
    assert!(slowest <= DEADLINE + SLACK, "{name}: {slowest:?}");
    let probes_max = 1 + took.as_millis() / 50;
    assert!(u128::from(probes) <= probes_max, "{name}: {probes} probes in {took:?}");
    assert_ne!(limiter.stats().breaker, BreakerState::Closed, "{name}");
}

/// Asserts that each failure mode decides as documented.
fn assert_modes(limiter: &RedisLimiter, decisions: &[Decision], used: u64) {
    match limiter.policy().failure_mode() {
        FailureMode::Allow => {
            assert_eq!(allowed(decisions), decisions.len());
            assert!(decisions.iter().all(|decision| decision.remaining() == 40));
        }
        FailureMode::Deny => {
            assert_eq!(allowed(decisions), 0);
            let waits = decisions.iter().map(|decision| decision.retry_after().duration().unwrap());
            assert!(waits.max().unwrap() <= Duration::from_secs(1));
        }
        FailureMode::Local => assert_eq!(allowed(decisions), 40 - usize::try_from(used).unwrap()),
    }
    assert!(decisions.iter().all(|decision| decision.quotas()[0].limit() == 40));
}

// A reply that is lost after Redis counted: a repeated call would count twice, and ignoring it
// would over-admit by one.
#[test]
fn a_lost_reply_is_counted_once() {
    const CALLS: u64 = 24;
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let faults = [
            ("cut", ReplyFault::Cut { after: 0 }),
            ("cut-short", ReplyFault::Cut { after: 9 }),
            ("deaf", ReplyFault::Deafen),
            ("swallowed", ReplyFault::Swallow),
        ];
        for (name, fault) in faults {
            let proxy = Proxy::in_front_of(&server).unwrap();
            let redis = Redis::single(proxy.url()).unwrap().deadline(DEADLINE);
            let redis = redis.breaker(2, Duration::from_millis(4)).build().unwrap();
            let quota = failing(&policy(name, 1_000, HOUR_MS), FailureMode::Deny);
            let limiter = redis.limiter(quota).build().unwrap();
            eventually("an answer", async || !limiter.check("warm").await.is_degraded()).await;
            let before = limiter.stats();

            let mut admitted = 0;
            for call in 0..CALLS {
                if call % 3 == 1 {
                    proxy.fail_next(1, fault.clone());
                }
                let decision = asked_for(&limiter, "k").await;
                assert!(decision.is_degraded() || decision.is_allowed());
                admitted += u64::from(decision.is_allowed());
            }
            proxy.pass_replies();
            eventually("an answer", async || !limiter.check("warm").await.is_degraded()).await;

            let stats = limiter.stats();
            let unknown = stats.unknown - before.unknown;
            let used = used(&server, name, "k").await;
            println!("{name}: {admitted} admitted, {unknown} unknown, {used} counted");
            assert!(unknown >= CALLS / 6, "{name}: the fault was not at work");
            assert!((admitted..=admitted + unknown).contains(&used), "{name}: {stats:?}");
            // Each is sent at most once.
            assert!(stats.calls <= stats.decisions + stats.scripts_sent, "{name}: {stats:?}");
        }
    });
}

/// Returns the first decision for which Redis was called: not while the breaker is open.
async fn asked_for(limiter: &RedisLimiter, key: &str) -> Decision {
    loop {
        let calls = limiter.stats().calls;
        let decision = limiter.check(key).await;
        if limiter.stats().calls > calls {
            return decision;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

// A crash under load: every caller gets a decision, the scripts are gone afterwards, and earlier
// units must still count, once.
#[test]
fn a_killed_server_is_used_again_when_it_is_back() {
    const CALLERS: u64 = 8;
    crew().block_on(async {
        let mut server = RedisServer::builder().append_only().start().unwrap();
        let redis = Redis::single(&server.url()).unwrap().deadline(Duration::from_secs(5));
        let redis = redis.connect_deadline(Duration::from_secs(5)).build().unwrap();
        let quota = failing(&policy("crash", 1_000_000, HOUR_MS), FailureMode::Deny);
        let limiter = Arc::new(redis.limiter(quota).build().unwrap());
        let (over, admitted) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));

        let mut callers = JoinSet::new();
        for _ in 0..CALLERS {
            let (limiter, over) = (Arc::clone(&limiter), Arc::clone(&over));
            let admitted = Arc::clone(&admitted);
            callers.spawn(async move {
                let mut slowest = Duration::ZERO;
                while !over.load(Ordering::Relaxed) {
                    let asked = Instant::now();
                    let decision = limiter.check("k").await;
                    slowest = slowest.max(asked.elapsed());
                    admitted.fetch_add(decision.is_allowed().into(), Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                slowest
            });
        }
        let more_than = |count: u64| {
            let admitted = Arc::clone(&admitted);
            async move || admitted.load(Ordering::Relaxed) > count
        };
        eventually("load", more_than(100)).await;
        for round in 1..=2 {
            let scripts = limiter.stats().scripts_sent;
            server.kill().unwrap();
            let degraded = limiter.stats().degraded;
            eventually("the failure mode", async || limiter.stats().degraded > degraded).await;
            server.restart().unwrap();
            let took = eventually("Redis again", more_than(admitted.load(Ordering::Relaxed))).await;
            println!("round {round}: the first answer {took:?} after the server was back");
            assert!(took <= Duration::from_secs(1) + SLACK, "{took:?}");
            eventually("load", more_than(admitted.load(Ordering::Relaxed) + 100)).await;
            assert!(limiter.stats().scripts_sent > scripts, "the scripts were gone");
        }
        over.store(true, Ordering::Relaxed);
        let slowest = callers.join_all().await.into_iter().max().unwrap();

        let (stats, admitted) = (limiter.stats(), admitted.load(Ordering::Relaxed));
        let used = used(&server, "crash", "k").await;
        println!(
            "{admitted} admitted, {} unknown, {used} counted, slowest {slowest:?}",
            stats.unknown
        );
        assert!((admitted..=admitted + stats.unknown).contains(&used), "{used}: {stats:?}");
        assert_eq!(stats.breaker, BreakerState::Closed);
    });
}

// Unbounded calls to a server that hangs would take unbounded memory. Callers without room wait, so
// that a backlog of this process does not look like an outage.
#[test]
fn callers_above_in_flight_max_wait_for_their_turn() {
    const MOST: usize = 4;
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let redis =
            patient(&server.url()).in_flight_max(MOST).checks_per_call_max(1).build().unwrap();
        let quota = failing(&policy("crowd", 100, HOUR_MS), FailureMode::Deny);
        let limiter = Arc::new(redis.limiter(quota).build().unwrap());
        assert!(!limiter.check("k").await.is_degraded());
        let calls = limiter.stats().calls;

        server.suspend().unwrap();
        let callers = tokio::spawn({
            let limiter = Arc::clone(&limiter);
            async move { crowd(&limiter, MOST + 20).await }
        });
        let in_flight = calls + u64::try_from(MOST).unwrap();
        eventually("calls in flight", async || limiter.stats().calls == in_flight).await;
        server.resume().unwrap();
        let (decisions, _) = callers.await.unwrap();
        assert!(decisions.iter().all(|decision| !decision.is_degraded()));
        assert_eq!(limiter.stats().crowded, 0);
        assert_eq!(used(&server, "crowd", "k").await, 1 + u64::try_from(MOST).unwrap() + 20);
    });
}

// A server that hangs is detected by the calls in flight. Those that wait must not wait for one
// deadline after another.
#[test]
fn callers_above_in_flight_max_are_decided_when_the_breaker_opens() {
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let redis = Redis::single(&server.url()).unwrap().deadline(DEADLINE).in_flight_max(1);
        let redis = redis.breaker(1, Duration::from_secs(60)).build().unwrap();
        let quota = failing(&policy("hung", 100, HOUR_MS), FailureMode::Allow);
        let limiter = Arc::new(redis.limiter(quota).build().unwrap());
        eventually("an answer", async || !limiter.check("k").await.is_degraded()).await;
        server.suspend().unwrap();
        let (decisions, slowest) = crowd(&limiter, 20).await;
        assert!(decisions.iter().all(|decision| decision.is_degraded() && decision.is_allowed()));
        assert!(slowest < DEADLINE + SLACK, "{slowest:?}");
        assert_eq!(limiter.stats().crowded, 0);
    });
}

// Redis decides for others, so a check that has waited for too long must not pass without it, whatever
// the failure mode is.
#[test]
fn callers_without_room_for_too_long_are_denied() {
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let deadline = Duration::from_millis(600);
        let redis = Redis::single(&server.url()).unwrap().deadline(deadline).in_flight_max(1);
        let redis = redis.breaker(1000, Duration::from_secs(60)).build().unwrap();
        for mode in [FailureMode::Allow, FailureMode::Local] {
            let quota = failing(&policy("crowd", 100, HOUR_MS), mode);
            let limiter = Arc::new(redis.limiter(quota).build().unwrap());
            eventually("an answer", async || !limiter.check("k").await.is_degraded()).await;
            let before = limiter.stats().crowded;
            server.suspend().unwrap();
            let (decisions, _) = crowd(&limiter, 10).await;
            server.resume().unwrap();
            let of_backlog = |decision: &&Decision| {
                decision.degraded_reason() == Some(DegradedReason::InFlightMax)
            };
            let denied = decisions.iter().filter(of_backlog).count();
            assert!(denied > 0, "all had room");
            assert_eq!(limiter.stats().crowded - before, denied as u64);
            for decision in decisions.iter().filter(of_backlog) {
                assert!(!decision.is_allowed());
                let retry_after = decision.retry_after().duration().unwrap();
                assert!(!retry_after.is_zero() && retry_after <= Duration::from_secs(1));
            }
        }
    });
}
