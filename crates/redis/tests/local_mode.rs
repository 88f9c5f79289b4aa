//! Failure mode `local`: this process judges while Redis cannot, with its share of every limit, and
//! for a window beside it afterwards.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

mod common;

use std::time::Duration;

use common::{crew, eventually, failing, policy, runtime};
use slidegate::{Cost, FailureMode};
use slidegate_redis::{BreakerState, Redis, RedisAsk, RedisLimiter, check_all};
use slidegate_testkit::never_over;
use slidegate_testkit::server::{Proxy, RedisServer, ReplyFault};
use tokio::task::JoinSet;
use tokio::time::Instant;

const HOUR_MS: u64 = 3_600_000;
const DEADLINE: Duration = Duration::from_millis(200);

/// A limiter of one of `nodes` processes.
fn limiter(url: &str, limit: u64, window_ms: u64, nodes: u64) -> RedisLimiter {
    let redis = Redis::single(url).unwrap().deadline(DEADLINE);
    let redis = redis.breaker(2, Duration::from_millis(50)).build().unwrap();
    let quota = failing(&policy("local", limit, window_ms), FailureMode::Local);
    redis.limiter(quota).deny_cache(0).nodes(nodes).build().unwrap()
}

/// Makes the connection, on a key that nobody looks at.
async fn connect(limiter: &RedisLimiter) {
    eventually("an answer", async || !limiter.check("warm").await.is_degraded()).await;
}

/// Asks until it is denied; how many were allowed.
async fn exhaust(limiter: &RedisLimiter, key: &str) -> u64 {
    let mut allowed = 0;
    while limiter.check(key).await.is_allowed() {
        allowed += 1;
    }
    allowed
}

// A local limiter that begins with nothing gives everybody a fresh limit at every hiccup, and one
// with the whole limit multiplies it by the number of processes.
#[test]
fn begins_with_what_redis_allowed_and_has_a_share_of_the_limit() {
    runtime().block_on(async {
        for (limit, nodes, before, share) in [(100, 4, 10, 25), (10, 3, 0, 3), (2, 5, 0, 1)] {
            let mut server = RedisServer::start().unwrap();
            let limiter = limiter(&server.url(), limit, HOUR_MS, nodes);
            connect(&limiter).await;
            for _ in 0..before {
                let decision = limiter.check("k").await;
                assert!(decision.is_allowed() && !decision.is_degraded());
            }
            server.suspend().unwrap();
            let cost = Cost::new(share + 1).unwrap();
            assert!(!limiter.check_cost("k", cost).await.is_allowed(), "more than the share");
            let decision = limiter.check("other").await;
            assert!(decision.is_allowed() && decision.is_degraded());
            assert_eq!(decision.quotas()[0].limit(), share, "{limit} over {nodes}");
            assert_eq!(exhaust(&limiter, "k").await, share - before, "{limit} over {nodes}");
        }
    });
}

// An outage is the best time for a flood of keys: nobody else counts them.
#[test]
fn a_flood_of_keys_during_an_outage_takes_no_more_memory_than_allowed() {
    const MEMORY: usize = 1 << 20;
    const FLOOD: u32 = 200_000;
    runtime().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let redis = Redis::single(&server.url()).unwrap().deadline(DEADLINE);
        let redis = redis.breaker(1, Duration::from_secs(60)).build().unwrap();
        let quota = failing(&policy("local", 3, HOUR_MS), FailureMode::Local);
        let limiter = redis.limiter(quota).local_memory(MEMORY).build().unwrap();
        connect(&limiter).await;
        server.suspend().unwrap();
        assert_eq!(exhaust(&limiter, "victim").await, 3);

        let before = resident();
        let mut denied = 0;
        for key in 0..FLOOD {
            let decision = limiter.check(key.to_be_bytes()).await;
            assert!(decision.is_degraded());
            denied += u32::from(!decision.is_allowed());
        }
        let grown = resident().saturating_sub(before);
        println!("{FLOOD} keys: {grown} bytes more, {denied} denied");
        // Room for the table, and for what the allocator and the test keep.
        assert!(grown < 4 * MEMORY, "{grown} bytes");
        assert!(!limiter.check("victim").await.is_allowed(), "pushed out by the flood");
    });
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

// Keys that Redis answers for all the time have nothing to do with the outage of others.
#[test]
fn keys_that_redis_answers_keep_the_whole_limit() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiter = limiter(proxy.url(), 20, HOUR_MS, 4);
        connect(&limiter).await;
        proxy.fail_next(1, ReplyFault::Cut { after: 0 });
        assert!(limiter.check("unlucky").await.is_degraded());
        eventually("an answer", async || !limiter.check("warm").await.is_degraded()).await;
        for _ in 0..20 {
            let decision = limiter.check("calm").await;
            assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
        }
    });
}

// Redis does not know what was let through while it was away, so right after its return it would
// allow a whole limit more. Whatever happens, a window holds at most what Redis allows and one share
// of each process: limit + nodes * max(1, limit / nodes). Where the load is even, each process has
// seen its share, and it is little more than the limit.
#[test]
fn a_window_across_an_outage_holds_no_more_than_the_limit_and_the_shares() {
    const LIMIT: u64 = 60;
    const WINDOW: Duration = Duration::from_millis(1500);
    for nodes in [1, 2, 4] {
        let admitted = crew().block_on(across_an_outage(LIMIT, WINDOW, nodes));
        let window_ns = u64::try_from(WINDOW.as_nanos()).unwrap();
        let fullest = never_over(&admitted, 0, window_ns).unwrap().units;
        println!("{nodes} processes: {} admitted, at most {fullest} in a window", admitted.len());
        let shares = nodes * (LIMIT / nodes).max(1);
        let over = never_over(&admitted, LIMIT + shares, window_ns);
        assert!(over.is_none(), "{nodes} processes: {}", over.unwrap());
        let over = never_over(&admitted, LIMIT + LIMIT / 5, window_ns);
        assert!(over.is_none(), "{nodes} processes, evenly: {}", over.unwrap());
    }
}

// Who is denied here has no question for Redis. If only such callers come, somebody has to ask all the
// same, or the breaker is open, and told to be, until the window has passed.
#[test]
fn keys_that_are_denied_here_find_out_that_redis_is_back() {
    runtime().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let limiter = limiter(&server.url(), 1, HOUR_MS, 1);
        connect(&limiter).await;
        for together in [false, true] {
            server.suspend().unwrap();
            let key = format!("denied {together}");
            assert_eq!(exhaust(&limiter, &key).await, 1);
            assert_eq!(exhaust(&limiter, &format!("another {together}")).await, 1);
            assert_ne!(limiter.stats().breaker, BreakerState::Closed);
            server.resume().unwrap();
            eventually("a closed breaker", async || {
                let decision = if together {
                    let asks = [RedisAsk::new(&limiter, &key, Cost::ONE)];
                    check_all(&asks).await.unwrap().remove(0)
                } else {
                    limiter.check(&key).await
                };
                assert!(!decision.is_allowed() && decision.is_degraded(), "{decision:?}");
                limiter.stats().breaker == BreakerState::Closed
            })
            .await;
        }
    });
}

/// Everybody asks all the time, before, during and after an outage; when each unit was admitted, in
/// nanoseconds.
async fn across_an_outage(limit: u64, window: Duration, nodes: u64) -> Vec<(u64, u64)> {
    let mut server = RedisServer::start().unwrap();
    let window_ms = u64::try_from(window.as_millis()).unwrap();
    let limiters: Vec<_> =
        (0..nodes).map(|_| limiter(&server.url(), limit, window_ms, nodes)).collect();
    for limiter in &limiters {
        connect(limiter).await;
    }
    let start = Instant::now();
    let callers = limiters.into_iter().map(|limiter| ask_for(limiter, start, window * 3));
    let callers: JoinSet<Vec<(u64, u64)>> = callers.collect();
    // The outage begins within a window and ends within the next.
    tokio::time::sleep_until(start + window / 2).await;
    server.suspend().unwrap();
    tokio::time::sleep_until(start + window * 6 / 5).await;
    server.resume().unwrap();
    callers.join_all().await.concat()
}

async fn ask_for(limiter: RedisLimiter, start: Instant, time: Duration) -> Vec<(u64, u64)> {
    let mut admitted = Vec::new();
    while start.elapsed() < time {
        if limiter.check("k").await.is_allowed() {
            admitted.push((u64::try_from(start.elapsed().as_nanos()).unwrap(), 1));
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let stats = limiter.stats();
    assert!(stats.degraded > 0 && stats.breaker == BreakerState::Closed, "{stats:?}");
    admitted
}
