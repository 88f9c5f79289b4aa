//! Failure mode `local`: this process decides while Redis is unavailable, with its share of every
//! limit, and reports its admissions to Redis afterwards.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{crew, eventually, failing, patient, policy, runtime};
use slidegate::{Cost, FailureMode};
use slidegate_redis::{BreakerState, Redis, RedisAsk, RedisLimiter, RedisStats, check_all};
use slidegate_testkit::never_over;
use slidegate_testkit::server::{AcceptMode, Cluster, Proxy, RedisServer, ReplyFault};
use tokio::task::JoinSet;
use tokio::time::Instant;

const HOUR_MS: u64 = 3_600_000;
const DEADLINE: Duration = Duration::from_millis(200);

/// A time budget for connecting that is longer than the delays of replies.
const LONG: Duration = Duration::from_secs(10);

/// Returns a limiter for one of `nodes` processes.
fn limiter(url: &str, limit: u64, window_ms: u64, nodes: u64) -> RedisLimiter {
    limiter_with_breaker(url, 2, limit, window_ms, nodes)
}

/// A limiter whose breaker opens after this many failures.
fn limiter_with_breaker(
    url: &str,
    failures: u32,
    limit: u64,
    window_ms: u64,
    nodes: u64,
) -> RedisLimiter {
    let redis = Redis::single(url).unwrap().deadline(DEADLINE);
    let redis = redis.breaker(failures, Duration::from_millis(50)).build().unwrap();
    let quota = failing(&policy("local", limit, window_ms), FailureMode::Local);
    redis.limiter(quota).deny_cache(0).nodes(nodes).build().unwrap()
}

/// Connects, with a key that is not used otherwise.
async fn connect(limiter: &RedisLimiter) {
    eventually("an answer", async || !limiter.check("warm").await.is_degraded()).await;
}

/// Checks until denied. Returns the number of allowed checks.
async fn exhaust(limiter: &RedisLimiter, key: &str) -> u64 {
    let mut allowed = 0;
    while limiter.check(key).await.is_allowed() {
        allowed += 1;
    }
    allowed
}

// A local limiter that starts empty gives every key a new limit at every short outage, and one with
// the whole limit multiplies it by the number of processes.
#[test]
fn starts_with_units_of_redis_and_a_share_of_the_limit() {
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

// During an outage, a flood of keys is only counted here.
#[test]
fn a_flood_of_keys_during_an_outage_takes_bounded_memory() {
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
        // Enough for the table, the allocator and the test.
        assert!(grown < 4 * MEMORY, "{grown} bytes");
        assert!(!limiter.check("victim").await.is_allowed(), "pushed out by the flood");
    });
}

/// Returns the resident memory of this process.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = text.split_ascii_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096
}

// Keys that Redis decides throughout are not affected by the outage of others.
#[test]
fn keys_that_redis_decides_keep_the_whole_limit() {
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

// Redis does not have the units that were admitted during an outage, so right after it, it would
// allow another limit. In any case, a window contains at most what Redis allows and one share of
// each process: limit + nodes * max(1, limit / nodes). With an even load, each process has seen its
// share, and it is little more than the limit.
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

// A key that is denied here makes no call. If only such keys are checked, the breaker would stay
// open and the key would never be reported.
#[test]
fn keys_denied_locally_detect_that_redis_is_back() {
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
            eventually("a decision by Redis", async || {
                let decision = if together {
                    let asks = [RedisAsk::new(&limiter, &key, Cost::ONE)];
                    check_all(&asks).await.unwrap().remove(0)
                } else {
                    limiter.check(&key).await
                };
                assert!(!decision.is_allowed(), "{decision:?}");
                !decision.is_degraded()
            })
            .await;
            assert_eq!(limiter.stats().breaker, BreakerState::Closed);
        }
    });
}

// The keys of a failed primary are decided here. Those of the other primaries are not affected,
// however many keys are decided here.
#[test]
fn keys_on_healthy_primaries_keep_the_whole_limit() {
    const LIMIT: u64 = 20;
    const FLOOD: u64 = 20_000;
    crew().block_on(async {
        let node = RedisServer::builder().config("cluster-require-full-coverage no");
        let mut cluster = Cluster::start(&node).unwrap();
        let redis = Redis::cluster(&cluster.urls()).unwrap().deadline(Duration::from_secs(5));
        let redis = redis.breaker(2, Duration::from_secs(1)).build().unwrap();
        let quota = failing(&policy("healthy", LIMIT, HOUR_MS), FailureMode::Local);
        let limiter = Arc::new(redis.limiter(quota).nodes(4).build().unwrap());
        connect(&limiter).await;
        cluster.kill_primary_of("any").unwrap();
        let flood = (0..64).map(|task| {
            let limiter = Arc::clone(&limiter);
            async move {
                for key in (task..FLOOD).step_by(64) {
                    let _ = limiter.check(format!("flood-{key}")).await;
                }
            }
        });
        flood.collect::<JoinSet<()>>().join_all().await;
        let degraded = limiter.stats().degraded;
        println!("{degraded} of {FLOOD} keys were decided here");
        assert!(degraded > 1000, "the fault was not at work");

        let mut decided_by_redis = 0;
        for key in 0..40 {
            let (key, before) = (format!("fresh-{key}"), limiter.stats().degraded);
            let allowed = exhaust(&limiter, &key).await;
            if limiter.stats().degraded == before {
                decided_by_redis += 1;
                assert_eq!(allowed, LIMIT, "{key}");
            }
        }
        assert!(decided_by_redis > 10, "{decided_by_redis} keys on healthy primaries");
    });
}

/// Returns processes that share a limit of 100 per hour, with a connection each. Their breakers
/// open after this many failures.
async fn processes(url: &str, count: u64, failures: u32) -> Vec<Arc<RedisLimiter>> {
    let limiter = |_| Arc::new(limiter_with_breaker(url, failures, 100, HOUR_MS, count));
    let limiters: Vec<_> = (0..count).map(limiter).collect();
    for limiter in &limiters {
        connect(limiter).await;
    }
    limiters
}

/// Makes `count` checks in each process. Returns how many were allowed, and how many of these
/// without Redis.
async fn check_in_each(limiters: &[Arc<RedisLimiter>], count: u64) -> (u64, u64) {
    let checks = limiters.iter().map(|limiter| {
        let limiter = Arc::clone(limiter);
        async move {
            let (mut allowed, mut locally) = (0, 0);
            for _ in 0..count {
                let decision = limiter.check("k").await;
                allowed += u64::from(decision.is_allowed());
                locally += u64::from(decision.is_allowed() && decision.is_degraded());
            }
            (allowed, locally)
        }
    });
    let counts = checks.collect::<JoinSet<_>>().join_all().await;
    counts.into_iter().fold((0, 0), |sum, each| (sum.0 + each.0, sum.1 + each.1))
}

fn sum(limiters: &[Arc<RedisLimiter>], count: impl Fn(&RedisStats) -> u64) -> u64 {
    limiters.iter().map(|limiter| count(&limiter.stats())).sum()
}

// The server pauses, so calls time out and are executed later. The units were counted then, and
// must not be reported again. One process can use all of the rest: with its share alone it would be
// denied for the rest of the hour.
#[test]
fn after_a_pause_the_rest_of_the_limit_is_usable_and_not_exceeded() {
    runtime().block_on(async {
        let mut server = RedisServer::start().unwrap();
        let limiters = processes(&server.url(), 10, 100).await;
        let (before, _) = check_in_each(&limiters, 1).await;
        server.suspend().unwrap();
        let (paused, locally) = check_in_each(&limiters, 3).await;
        assert!(locally > 0, "the fault was not at work");
        server.resume().unwrap();
        let (after, later_locally) = check_in_each(&limiters[..1], 200).await;
        println!(
            "{before} before, {paused} during the pause, {after} of the next 200; {} reported",
            sum(&limiters, |stats| stats.local_units_reported)
        );
        assert_eq!((before + paused + after, later_locally), (100, 0));
        let used = limiters[0].usage("k").await.unwrap().units(0);
        assert_eq!(used, 100, "recorded without a caller");
    });
}

// Connections are cut, so decisions meanwhile do not reach Redis. They are reported, also by
// processes that do not check the key again, and one of them can use up the rest.
#[test]
fn after_an_outage_every_process_reports_its_admissions() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiters = processes(proxy.url(), 10, 100).await;
        proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        proxy.close_all();
        let (admitted, locally) = check_in_each(&limiters, 4).await;
        assert_eq!((admitted, locally), (40, 40));
        proxy.heal().unwrap();
        eventually("reports", async || {
            sum(&limiters, |stats| stats.local_units_reported) == admitted
        })
        .await;
        let used = limiters[0].usage("k").await.unwrap().units(0);
        assert_eq!(used, admitted);
        let (after, later_locally) = check_in_each(&limiters[..1], 200).await;
        assert_eq!((after, later_locally), (100 - admitted, 0));
        assert_eq!(sum(&limiters, |stats| stats.local_units_unreported), 0);
    });
}

// A charge whose reply is lost may have been recorded. It is not sent again, and until its units
// have expired both decide.
#[test]
fn a_report_without_a_reply_is_not_repeated() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let redis = Redis::single(proxy.url()).unwrap().deadline(DEADLINE).connect_deadline(LONG);
        let redis = redis.breaker(2, Duration::from_millis(50)).build().unwrap();
        let quota = failing(&policy("local", 100, HOUR_MS), FailureMode::Local);
        let limiter = redis.limiter(quota).deny_cache(0).build().unwrap();
        connect(&limiter).await;
        proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        proxy.close_all();
        for _ in 0..40 {
            assert!(limiter.check("k").await.is_degraded());
        }
        proxy.heal().unwrap();
        // The probe and the charge get their replies late, but in time.
        proxy.delay_replies(DEADLINE * 3 / 4);
        let peer = patient(&server.url()).build().unwrap();
        let peer = peer.limiter(policy("local", 100, HOUR_MS)).build().unwrap();
        let used = async || peer.usage("k").await.unwrap().units(0);
        eventually("a charge", async || used().await == 40).await;
        proxy.close_all();
        proxy.delay_replies(Duration::ZERO);
        eventually("another connection", async || !limiter.check("w").await.is_degraded()).await;
        for _ in 0..60 {
            assert!(limiter.check("k").await.is_allowed());
        }
        assert!(!limiter.check("k").await.is_allowed());
        let stats = limiter.stats();
        assert_eq!(used().await, 100, "{stats:?}");
        assert!(stats.local_units_reported < 40, "the reply came in time: {stats:?}");
    });
}

fn command<T: redis::FromRedisValue>(server: &RedisServer, name: &str, argument: &str) -> T {
    redis::cmd(name).arg(argument).query(&mut server.connection().unwrap()).unwrap()
}

fn set_maxmemory(server: &RedisServer, bytes: u64) {
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory").arg(bytes);
    set.exec(&mut server.connection().unwrap()).unwrap();
}

/// Waits until a script has failed because the server is full.
async fn refused(server: &RedisServer) {
    let stats = || command::<String>(server, "INFO", "errorstats");
    eventually("a refusal", async || stats().contains("errorstat_OOM")).await;
}

/// Returns the units of a key in Redis.
async fn used(server: &RedisServer, key: &str) -> u64 {
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("local", 100, HOUR_MS)).build().unwrap();
    limiter.usage(key).await.unwrap().units(0)
}

// Redis does not count a check that it refuses or denies. If the check timed out before, and a later
// reply on the connection is taken as proof that the check was counted, its units are lost.
#[test]
fn checks_refused_or_denied_after_their_deadline_are_reported() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiters = processes(proxy.url(), 1, 100).await;
        let limiter = &limiters[0];
        let peer = patient(&server.url()).build().unwrap();
        let peer = peer.limiter(policy("local", 100, HOUR_MS)).build().unwrap();
        assert!(peer.check_cost("denied", Cost::new(100).unwrap()).await.is_allowed());
        for (key, before) in [("refused", 0), ("denied", 100)] {
            set_maxmemory(&server, u64::from(key == "refused"));
            proxy.delay_replies(DEADLINE * 2);
            let decision = limiter.check(key).await;
            assert!(decision.is_allowed() && decision.is_degraded(), "{decision:?}");
            if key == "refused" {
                refused(&server).await;
                set_maxmemory(&server, 0);
            }
            proxy.delay_replies(Duration::ZERO);
            let is_reported = async || used(&server, key).await == before + 1;
            eventually("a report", is_reported).await;
        }
    });
}

// The same for a charge: after an error, it has to be sent again.
#[test]
fn charges_refused_after_their_deadline_are_repeated() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let redis = Redis::single(proxy.url()).unwrap().deadline(DEADLINE).connect_deadline(LONG);
        let redis = redis.breaker(100, Duration::from_millis(50)).build().unwrap();
        let quota = failing(&policy("local", 100, HOUR_MS), FailureMode::Local);
        let limiter = redis.limiter(quota).deny_cache(0).build().unwrap();
        connect(&limiter).await;
        proxy.fail_next(1, ReplyFault::Cut { after: 0 });
        set_maxmemory(&server, 1);
        assert!(limiter.check_cost("k", Cost::new(40).unwrap()).await.is_degraded());
        // A report is a call without effect, and the charge. Only the reply to the charge is too late.
        eventually("a late refusal", async || {
            proxy.delay_replies(DEADLINE / 2);
            command::<()>(&server, "CONFIG", "RESETSTAT");
            let stats = |section| command::<String>(&server, "INFO", section);
            eventually("a call", async || stats("commandstats").contains("evalsha")).await;
            proxy.delay_replies(DEADLINE * 2);
            command::<()>(&server, "CONFIG", "RESETSTAT");
            let timeouts = limiter.stats().timeouts;
            eventually("a timeout", async || limiter.stats().timeouts > timeouts).await;
            stats("errorstats").contains("errorstat_OOM")
        })
        .await;
        set_maxmemory(&server, 0);
        proxy.delay_replies(Duration::ZERO);
        eventually("a charge", async || used(&server, "k").await == 40).await;
        eventually("its reply", async || limiter.stats().local_units_reported == 40).await;
    });
}

// Checks that share a call have a part of its late reply each: a denied one says nothing about others.
#[test]
fn batches_that_redis_counted_after_their_deadline_are_not_reported() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiter = limiter_with_breaker(proxy.url(), 100, 100, HOUR_MS, 1);
        connect(&limiter).await;
        let (keys, mut decisions) = (["a", "b", "used up", "c"], Vec::new());
        // Loads the script.
        limiter.check_many(&["x", "y"], Cost::ONE, &mut Vec::new()).await;
        let all = Cost::new(100).unwrap();
        assert!(limiter.check_cost("used up", all).await.is_allowed());
        proxy.delay_replies(DEADLINE * 2);
        limiter.check_many(&keys, Cost::ONE, &mut decisions).await;
        assert!(decisions.iter().all(slidegate::Decision::is_degraded));
        let allowed: Vec<_> = decisions.iter().map(slidegate::Decision::is_allowed).collect();
        assert_eq!(allowed, [true, true, false, true]);
        proxy.delay_replies(Duration::ZERO);
        // Denied by the local limiter until the key is reported, and then by Redis.
        for key in ["a", "b", "c"] {
            let is_degraded = async || limiter.check_cost(key, all).await.is_degraded();
            eventually("a decision by Redis", async || !is_degraded().await).await;
            assert_eq!(used(&server, key).await, 1);
        }
        assert_eq!(limiter.stats().local_units_reported, 0);
    });
}

// A receipt of the local limiter is for units that are reported later. If refunded before that,
// they must not be reported; if refunded afterwards, they have to be refunded in Redis.
#[test]
fn local_receipts_work_before_and_after_the_report() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiters = processes(proxy.url(), 1, 100).await;
        let limiter = &limiters[0];
        proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        proxy.close_all();
        let mut receipts = Vec::new();
        for _ in 0..5 {
            receipts.extend(limiter.reserve("k", 10).await.into_receipt());
        }
        let mut next = || receipts.pop().unwrap();
        assert_eq!(limiter.refund("k", next()).await.unwrap(), 10);
        assert_eq!(limiter.settle("k", next(), 4).await.unwrap(), 4);
        proxy.heal().unwrap();
        eventually("a report", async || limiter.stats().local_units_reported == 34).await;
        let used = async || limiter.usage("k").await.unwrap().units(0);
        assert_eq!(used().await, 34);
        assert_eq!(limiter.refund("k", next()).await.unwrap(), 10);
        assert_eq!(used().await, 24);
        assert_eq!(limiter.settle("k", next(), 3).await.unwrap(), 3);
        assert_eq!(used().await, 17);
        assert_eq!(limiter.settle("k", next(), 15).await.unwrap(), 15);
        eventually("the debt", async || used().await == 22).await;
    });
}

// Shares do not include what others took through Redis. The last reply of Redis lowers them: a
// process that has seen the usage adds its share of the rest, and only the others add a whole
// share.
#[test]
fn a_window_holds_no_more_than_redis_admitted_and_the_shares() {
    runtime().block_on(async {
        // A share of at least one is left to each process that has seen some units left.
        for (seen_by_all, taken, fullest) in [(false, 100, 175), (true, 97, 103), (true, 57, 103)] {
            let mut server = RedisServer::start().unwrap();
            let limiters = processes(&server.url(), 4, 2).await;
            let (mut admitted, _) = check_in_each(&limiters[..1], taken).await;
            if seen_by_all {
                admitted += check_in_each(&limiters[1..], 1).await.0;
            }
            assert_eq!(admitted, taken + if seen_by_all { 3 } else { 0 });
            server.suspend().unwrap();
            for limiter in &limiters {
                admitted += exhaust(limiter, "k").await;
            }
            println!("{taken} by one, seen by all: {seen_by_all}: {admitted} of 100");
            assert!(admitted <= fullest, "{admitted} of {fullest}");
        }
    });
}

/// Checks continuously in all processes, before, during and after an outage. Returns when each unit
/// was admitted, in nanoseconds.
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
    // The outage starts within a window and ends within the next.
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
