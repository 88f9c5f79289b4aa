//! Connections that are cut, jammed, slow or full of garbage: no caller gets the reply of another,
//! and the limiter recovers.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{crew, eventually, failing, patient, policy, runtime};
use slidegate::{Cost, DegradedReason, FailureMode};
use slidegate_redis::{BreakerState, Redis, RedisLimiter};
use slidegate_testkit::server::{
    AcceptMode, Cluster, Proxy, RedisServer, ReplyFault, Sentinel, poll,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

const DEADLINE: Duration = Duration::from_millis(200);
const SLACK: Duration = Duration::from_secs(1);
const HOUR_MS: u64 = 3_600_000;

const KEYS: u64 = 8;
const LIMIT: u64 = 10_000_000;
/// The distance between the units of the keys: more than a test takes.
const DISTANCE: u64 = 1_000_000;

/// Key `n` has `n` times [`DISTANCE`] recorded units, so that a reply identifies its key.
async fn separate_keys(server: &RedisServer) {
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("separate", LIMIT, HOUR_MS)).build().unwrap();
    for key in 1..KEYS {
        let cost = Cost::new(key * DISTANCE).unwrap();
        assert!(limiter.check_cost(key.to_string(), cost).await.is_allowed());
    }
}

fn limiter(proxy: &Proxy) -> Arc<RedisLimiter> {
    limiter_at(proxy.url())
}

fn limiter_at(url: &str) -> Arc<RedisLimiter> {
    let redis = Redis::single(url).unwrap().deadline(DEADLINE);
    let redis = redis.breaker(5, Duration::from_millis(20)).build().unwrap();
    let quota = failing(&policy("separate", LIMIT, HOUR_MS), FailureMode::Deny);
    Arc::new(redis.limiter(quota).build().unwrap())
}

/// Callers that check all keys until they are stopped.
struct Load {
    tasks: JoinSet<()>,
    over: Arc<AtomicBool>,
    /// Replies that belonged to another key.
    wrong: Arc<AtomicU64>,
    slowest_ms: Arc<AtomicU64>,
}

impl Load {
    fn start(limiter: &Arc<RedisLimiter>, callers: u64) -> Self {
        let mut load = Self {
            tasks: JoinSet::new(),
            over: Arc::default(),
            wrong: Arc::default(),
            slowest_ms: Arc::default(),
        };
        for caller in 0..callers {
            let limiter = Arc::clone(limiter);
            let (over, wrong) = (Arc::clone(&load.over), Arc::clone(&load.wrong));
            let slowest_ms = Arc::clone(&load.slowest_ms);
            load.tasks.spawn(async move {
                let mut key = caller;
                while !over.load(Ordering::Relaxed) {
                    key = (key + 1) % KEYS;
                    let asked = Instant::now();
                    let decision = limiter.check(key.to_string()).await;
                    let took = u64::try_from(asked.elapsed().as_millis()).unwrap();
                    slowest_ms.fetch_max(took, Ordering::Relaxed);
                    let whose = (LIMIT - decision.remaining()) / DISTANCE;
                    let is_wrong = !decision.is_degraded() && whose != key;
                    wrong.fetch_add(is_wrong.into(), Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            });
        }
        load
    }

    async fn stop(self) -> (u64, Duration) {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
        let slowest = Duration::from_millis(self.slowest_ms.load(Ordering::Relaxed));
        (self.wrong.load(Ordering::Relaxed), slowest)
    }
}

/// Breaks a connection.
type Breaks = Box<dyn Fn(&Proxy)>;

// Each of these can shift the sequence of replies: from then on every caller would get the reply of
// the one before, without noticing.
#[test]
fn no_caller_gets_the_reply_of_another() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        separate_keys(&server).await;
        let slow = NonZeroU32::new(2_000);
        let long = DEADLINE * 2;
        let faults: [(&str, Breaks); 9] = [
            ("cut", Box::new(|proxy| proxy.fail_next(3, ReplyFault::Cut { after: 7 }))),
            ("closed", Box::new(Proxy::close_all)),
            ("garbage", Box::new(|proxy| proxy.fail_next(2, inject(b"\0\xffgarbage\r\n")))),
            ("a frame begun", Box::new(|proxy| proxy.fail_next(2, inject(b"$7\r\nab")))),
            ("deaf", Box::new(|proxy| proxy.fail_next(1, ReplyFault::Deafen))),
            ("late answers", Box::new(move |proxy| proxy.delay_replies(long))),
            ("late questions", Box::new(move |proxy| proxy.delay_requests(long))),
            ("a slow line", Box::new(move |proxy| proxy.throttle_replies(slow))),
            (
                "a black hole",
                Box::new(|proxy| proxy.set_accept_mode(AcceptMode::BlackHole).unwrap()),
            ),
        ];
        for (name, fault) in faults {
            let proxy = Proxy::in_front_of(&server).unwrap();
            let limiter = limiter(&proxy);
            eventually("an answer", async || !limiter.check("0").await.is_degraded()).await;
            let load = Load::start(&limiter, 16);
            let before = limiter.stats();
            // Repeatedly, because a fast caller may finish before it is detected.
            eventually(name, async || {
                fault(&proxy);
                limiter.stats().degraded > before.degraded + 10
            })
            .await;
            proxy.heal().unwrap();
            let took = back_to_normal(&limiter).await;
            let (wrong, slowest) = load.stop().await;
            println!("{name}: normal after {took:?}, slowest answer {slowest:?}");
            assert_eq!(wrong, 0, "{name}: replies of other keys");
            assert!(slowest <= DEADLINE + SLACK, "{name}: {slowest:?}");
        }
    });
}

fn inject(bytes: &[u8]) -> ReplyFault {
    ReplyFault::Inject(bytes.to_vec())
}

/// Waits for a hundred decisions in a row from Redis.
async fn back_to_normal(limiter: &RedisLimiter) -> Duration {
    let mut last = limiter.stats();
    eventually("all is well again", async || {
        let stats = limiter.stats();
        if stats.degraded > last.degraded || stats.breaker != BreakerState::Closed {
            last = stats;
        }
        stats.decisions > last.decisions + 100
    })
    .await
}

// A complete extra reply is the worst garbage: nothing in the stream is broken. The caller that
// gets it detects that it is not its own, and from then on the connection must not be used.
#[test]
fn an_extra_reply_ends_the_connection() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        separate_keys(&server).await;
        for extra in [&b"+OK\r\n"[..], b":1\r\n", b"$-1\r\n", b"$3\r\nabc\r\n"] {
            let shown = String::from_utf8_lossy(extra).into_owned();
            let proxy = Proxy::in_front_of(&server).unwrap();
            let limiter = limiter(&proxy);
            eventually("an answer", async || !limiter.check("0").await.is_degraded()).await;
            let load = Load::start(&limiter, 8);
            let before = limiter.stats();
            proxy.fail_next(1, inject(extra));
            eventually(&shown, async || limiter.stats().degraded > before.degraded).await;
            back_to_normal(&limiter).await;
            let (wrong, _) = load.stop().await;
            assert_eq!(wrong, 0, "{shown:?}: replies of other keys");
        }
    });
}

// A connection without any replies, opened while the breaker was open. If it were kept, every probe
// would use it and fail. RESP3 connections start with a reply.
#[test]
fn a_failed_probe_drops_its_connection() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiter = limiter_at(&format!("{}?protocol=resp2", proxy.url()));
        eventually("an answer", async || !limiter.check("0").await.is_degraded()).await;

        proxy.fail_replies(ReplyFault::Deafen);
        eventually("the breaker", async || {
            let _ = limiter.check("0").await;
            limiter.stats().breaker_opened > 0
        })
        .await;
        let timeouts = limiter.stats().timeouts;
        eventually("a probe in vain", async || {
            let _ = limiter.check("0").await;
            limiter.stats().timeouts > timeouts
        })
        .await;
        // Deaf connections stay deaf; new ones are not.
        proxy.heal().unwrap();
        let took = eventually("an answer", async || !limiter.check("0").await.is_degraded()).await;
        println!("an answer {took:?} after the network was whole");
    });
}

// The server accepts no connections: connecting uses its whole time budget, and no caller waits
// longer than its deadline.
#[test]
fn a_server_that_accepts_no_connections_delays_no_caller() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        separate_keys(&server).await;
        let proxy = Proxy::in_front_of(&server).unwrap();
        let limiter = limiter(&proxy);
        eventually("an answer", async || !limiter.check("0").await.is_degraded()).await;
        let load = Load::start(&limiter, 16);
        proxy.set_accept_mode(AcceptMode::Shut).unwrap();
        proxy.close_all();
        let before = limiter.stats();
        eventually("failed probes", async || limiter.stats().degraded > before.degraded + 500)
            .await;
        assert_ne!(limiter.stats().breaker, BreakerState::Closed);
        proxy.heal().unwrap();
        let took = back_to_normal(&limiter).await;
        let (wrong, slowest) = load.stop().await;
        println!("normal after {took:?}, slowest answer {slowest:?}");
        assert_eq!(wrong, 0);
        assert!(slowest <= DEADLINE + SLACK, "{slowest:?}");
    });
}

// Servers close idle connections. If only the next check detects that, it is lost.
#[test]
fn connection_closed_while_idle_is_replaced_before_the_next_check() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let quota = failing(&policy("idle", LIMIT, HOUR_MS), FailureMode::Deny);
        let limiter = redis.limiter(quota).build().unwrap();
        assert!(limiter.check("k").await.is_allowed());
        for round in 1..=3 {
            let mut kill = redis::cmd("CLIENT");
            kill.arg("KILL").arg("TYPE").arg("normal");
            kill.exec(&mut server.connection().unwrap()).unwrap();
            let again = async || limiter.stats().connections == round + 1;
            eventually("another connection", again).await;
            let decision = limiter.check("k").await;
            assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
        }
        let stats = limiter.stats();
        assert_eq!((stats.degraded, stats.unknown, stats.errors), (0, 0, 3), "{stats:?}");
    });
}

// A proxy whose server is gone closes connections that it has accepted. Here the end of the connection
// arrives together with the reply of the handshake, before the limiter uses the connection.
#[test]
fn connection_closed_with_its_handshake_is_replaced_before_the_next_check() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let redis = patient(proxy.url()).build().unwrap();
        let limiter = redis.limiter(policy("handshake", LIMIT, HOUR_MS)).build().unwrap();
        assert!(limiter.check("k").await.is_allowed());
        let before = proxy.counters();
        proxy.delay_replies(Duration::from_millis(50));
        proxy.fail_next(1, ReplyFault::Cut { after: usize::MAX });
        proxy.close_all();
        eventually("a handshake", async || proxy.counters().requests > before.requests).await;
        // Blocks the thread of the limiter, so that it reads both at once.
        poll("the end", || Ok((proxy.counters().cuts > before.cuts).then_some(()))).unwrap();
        proxy.delay_replies(Duration::ZERO);
        eventually("a third connection", async || limiter.stats().connections == 3).await;
        let decision = limiter.check("k").await;
        assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
        assert_eq!(limiter.stats().degraded, 0);
    });
}

// A round trip takes longer than a check may. Finding the primary must continue from check to
// check, or no check would ever succeed.
#[test]
fn cluster_seeds_farther_away_than_the_deadline_are_found() {
    crew().block_on(async {
        let cluster = Cluster::start(&RedisServer::builder()).unwrap();
        let nodes = cluster.nodes().iter();
        let proxies: Vec<Proxy> = nodes.map(|node| Proxy::to_port(node.port()).unwrap()).collect();
        for proxy in &proxies {
            proxy.delay_replies(DEADLINE * 2);
        }
        let urls: Vec<&str> = proxies.iter().map(Proxy::url).collect();
        let redis = Redis::cluster(&urls).unwrap().deadline(DEADLINE);
        let redis = redis.connect_deadline(Duration::from_secs(10)).build().unwrap();
        let limiter = redis.limiter(policy("far", LIMIT, HOUR_MS)).build().unwrap();
        assert!(limiter.check("k").await.is_degraded());
        let took = eventually("a decision", async || !limiter.check("k").await.is_degraded()).await;
        let connections: u64 = proxies.iter().map(|proxy| proxy.counters().connections).sum();
        println!("decided after {took:?}, {connections} connections");
        assert!(connections <= proxies.len() as u64, "{connections} connections");
    });
}

// The same for Sentinels.
#[test]
fn sentinels_farther_away_than_the_deadline_are_found() {
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let ports: Vec<u16> = sentinel.sentinels_mut().iter().map(RedisServer::port).collect();
        let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::to_port(*port).unwrap()).collect();
        for proxy in &proxies {
            proxy.delay_replies(DEADLINE * 2);
        }
        let urls: Vec<&str> = proxies.iter().map(Proxy::url).collect();
        let redis = Redis::sentinel(&urls, sentinel.service_name()).unwrap().deadline(DEADLINE);
        let redis = redis.connect_deadline(Duration::from_secs(10)).build().unwrap();
        let limiter = redis.limiter(policy("far", LIMIT, HOUR_MS)).build().unwrap();
        let first = limiter.check("k").await;
        assert_eq!(first.degraded_reason(), Some(DegradedReason::Unreachable));
        let took = eventually("a decision", async || !limiter.check("k").await.is_degraded()).await;
        let connections: u64 = proxies.iter().map(|proxy| proxy.counters().connections).sum();
        println!("decided after {took:?}, {connections} connections");
        assert_eq!(connections, 3, "one per Sentinel");
    });
}
