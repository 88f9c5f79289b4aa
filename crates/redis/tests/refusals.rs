//! Servers that reply, but not with a decision: the failure mode decides, only for affected keys
//! and no longer than necessary.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{crew, eventually, failing, keys, patient, policy, runtime};
use slidegate::{Algorithm, DegradedReason, FailureMode, Policy, Quota};
use slidegate_redis::{BreakerState, RedisLimiter};
use slidegate_testkit::server::{Proxy, RedisServer, poll};
use tokio::task::JoinSet;

const HOUR_MS: u64 = 3_600_000;

fn limiter(server: &RedisServer, name: &str, limit: u64, mode: FailureMode) -> RedisLimiter {
    let redis = patient(&server.url()).breaker(5, Duration::from_millis(20)).build().unwrap();
    redis.limiter(failing(&policy(name, limit, HOUR_MS), mode)).deny_cache(0).build().unwrap()
}

/// Sends a command directly to the server.
fn send(server: &RedisServer, words: &[&[u8]]) {
    let mut command = redis::Cmd::new();
    for word in words {
        command.arg(*word);
    }
    command.exec(&mut server.connection().unwrap()).unwrap();
}

/// Asserts that the failure mode decides this key, `times` times.
async fn assert_degraded(limiter: &RedisLimiter, key: &str, times: u32) {
    let mode = limiter.policy().failure_mode();
    for _ in 0..times {
        let decision = limiter.check(key).await;
        assert!(decision.is_degraded(), "{mode:?}: {decision:?}");
        assert_eq!(decision.is_allowed(), mode == FailureMode::Allow);
    }
}

// Another program, or a newer version, wrote to a key. This affects only that key: if it opened the
// breaker, damaging one key would disable all limits.
#[test]
fn a_damaged_key_affects_only_itself() {
    const VALUES: [&[&[u8]]; 5] = [
        &[b"LPUSH", b"KEY", b"x"],
        &[b"SET", b"KEY", b"\x02a value of another version, long enough to be read as a log"],
        &[b"SET", b"KEY", b"x"],
        &[b"SET", b"KEY", b"\x01Lcut"],
        &[b"SET", b"KEY", &[0xff; 300]],
    ];
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        for (number, algorithm) in ALGORITHMS.into_iter().enumerate() {
            let redis = patient(&server.url()).build().unwrap();
            let named = Policy::builder(&format!("damaged-{number}"))
                .quota(Quota::new(10, Duration::from_millis(HOUR_MS)).unwrap())
                .algorithm(algorithm);
            let limiter = |mode| {
                let policy = named.clone().failure_mode(mode).build().unwrap();
                redis.limiter(policy).deny_cache(0).build().unwrap()
            };
            let [allow, deny] = [limiter(FailureMode::Allow), limiter(FailureMode::Deny)];
            assert!(!allow.check("bad").await.is_degraded());
            let name = keys(&server).pop().unwrap().0;
            for value in VALUES {
                send(&server, &[b"DEL", name.as_bytes()]);
                let value: Vec<&[u8]> = value
                    .iter()
                    .map(|word| if *word == b"KEY" { name.as_bytes() } else { *word })
                    .collect();
                send(&server, &value);
                for limiter in [&allow, &deny] {
                    assert_degraded(limiter, "bad", 10).await;
                    let error = limiter.usage("bad").await.unwrap_err();
                    assert!(error.is_store(), "{error}");
                    assert!(!limiter.check("good").await.is_degraded(), "{algorithm:?}");
                }
            }
            let stats = allow.stats();
            assert_eq!((stats.breaker, stats.breaker_opened), (BreakerState::Closed, 0));
            assert_eq!((stats.unknown, stats.errors), (0, 0), "{stats:?}");
            // An operator can fix it: a reset removes the value.
            deny.reset("bad").await.unwrap();
            assert!(!deny.check("bad").await.is_degraded(), "{algorithm:?}");
            send(&server, &[b"FLUSHALL"]);
        }
    });
}

const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Log,
    Algorithm::Counter,
    Algorithm::Segments { count: 10 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

// In mode `local`, this process has only its share of a limit. One damaged key must not put all
// others on that share.
#[test]
fn a_damaged_key_does_not_reduce_other_limits() {
    runtime().block_on(async {
        let server = RedisServer::start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let quota = failing(&policy("shared", 10, HOUR_MS), FailureMode::Local);
        let limiter = redis.limiter(quota).nodes(5).build().unwrap();
        assert!(!limiter.check("bad").await.is_degraded());
        let name = keys(&server).pop().unwrap().0;
        send(&server, &[b"SET", name.as_bytes(), b"x"]);
        assert!(limiter.check("bad").await.is_degraded());
        for _ in 0..10 {
            let decision = limiter.check("good").await;
            assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
        }
    });
}

// A replica cannot count. When it becomes the primary, it can.
#[test]
fn a_replica_is_not_called_repeatedly() {
    runtime().block_on(async {
        for server in [RedisServer::builder(), RedisServer::valkey()] {
            let primary = server.start().unwrap();
            let replica = server.replica_of(&primary).start().unwrap();
            replica.wait_for_primary().unwrap();
            let limiter = limiter(&replica, "replica", 10, FailureMode::Deny);
            assert_degraded(&limiter, "k", 50).await;
            let stats = limiter.stats();
            assert!(stats.breaker_opened > 0 && stats.calls < 50, "{stats:?}");
            assert_eq!(stats.unknown, 0, "a replica says that it did nothing");
            assert!(keys(&primary).is_empty());

            send(&replica, &[b"REPLICAOF", b"NO", b"ONE"]);
            let took =
                eventually("an answer", async || limiter.check("k").await.is_allowed()).await;
            println!("an answer {took:?} after it became the primary");
            assert_eq!(limiter.usage("k").await.unwrap().units(0), 1);
        }
    });
}

// Memory is full: nothing can be counted, but keys over their limit stay denied, or a flood of keys
// would disable the limits.
#[test]
fn a_full_server_still_denies_keys_over_their_limit() {
    runtime().block_on(async {
        let server = RedisServer::builder().max_memory(0, "noeviction").start().unwrap();
        let limiter = limiter(&server, "full", 3, FailureMode::Allow);
        for _ in 0..3 {
            assert!(!limiter.check("over").await.is_degraded());
        }
        assert!(!limiter.check("below").await.is_degraded());

        send(&server, &[b"CONFIG", b"SET", b"maxmemory", b"1"]);
        for key in 0..20 {
            assert_degraded(&limiter, &format!("new-{key}"), 1).await;
        }
        assert_degraded(&limiter, "below", 20).await;
        let decision = limiter.check("over").await;
        assert!(!decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
        assert_eq!(limiter.usage("below").await.unwrap().units(0), 1, "looking still works");
        assert_eq!(limiter.stats().unknown, 0, "a full server says that it did nothing");

        send(&server, &[b"CONFIG", b"SET", b"maxmemory", b"0"]);
        assert!(!limiter.check("below").await.is_degraded());
        assert_eq!(limiter.usage("below").await.unwrap().units(0), 2);
    });
}

// A server that still loads its data accepts connections and refuses everything.
#[test]
fn a_loading_server_is_used_when_ready() {
    const KEYS: u32 = 2_000;
    crew().block_on(async {
        // Slow on purpose, and replying meanwhile.
        let slowly = ["key-load-delay 1000", "loading-process-events-interval-bytes 1024"];
        let mut server = slowly.iter().fold(RedisServer::builder(), |all, line| all.config(*line));
        server = server.config("save 3600 1000000");
        let mut server = server.start().unwrap();
        let limiter = limiter(&server, "loading", 10, FailureMode::Deny);
        assert!(limiter.check("k").await.is_allowed());
        let mut connection = server.connection().unwrap();
        for key in 0..KEYS {
            redis::cmd("SET").arg(key).arg(&[b'x'; 100]).exec(&mut connection).unwrap();
        }
        send(&server, &[b"SAVE"]);

        let client = server.client().unwrap();
        let back = std::thread::spawn(move || {
            server.restart().unwrap();
            server
        });
        let seen = poll("a server that is loading", || {
            let error = client.get_connection().and_then(|mut connection| {
                redis::cmd("GET").arg("0").query::<Option<String>>(&mut connection)
            });
            Ok(error.err().map(|error| error.to_string()).filter(|why| why.contains("oading")))
        });
        println!("{}", seen.unwrap());
        let before = limiter.stats();
        let (mut refused, mut allowed) = (0, 0);
        while !back.is_finished() {
            let decision = limiter.check("k").await;
            refused += u32::from(decision.is_degraded() && !decision.is_allowed());
            allowed += u64::from(decision.is_allowed());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(refused > 0);
        let took = eventually("an answer", async || limiter.check("k").await.is_allowed()).await;
        println!("{refused} refused; an answer {took:?} after it was ready");
        // Checks that it refused while loading were not counted.
        let used = limiter.usage("k").await.unwrap().units(0);
        let unknown = limiter.stats().unknown - before.unknown;
        let counted = 2 + allowed;
        assert!((counted..=counted + unknown).contains(&used), "{used} used, {unknown} unknown");
        drop(back.join().unwrap());
    });
}

/// Checks a key from several tasks for a while. Returns the duration.
async fn flood(limiter: &Arc<RedisLimiter>, tasks: usize, checks: usize) -> Duration {
    let began = tokio::time::Instant::now();
    let mut flood = JoinSet::new();
    for _ in 0..tasks {
        let limiter = Arc::clone(limiter);
        flood.spawn(async move {
            for _ in 0..checks {
                assert!(limiter.check("k").await.is_degraded());
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    flood.join_all().await;
    began.elapsed()
}

// The server replies, so it looks healthy. A limiter that connects for every check keeps the server
// from its other clients.
#[test]
fn a_server_at_maxclients_gets_few_connections() {
    crew().block_on(async {
        let server = RedisServer::start().unwrap();
        let mut admin = server.connection().unwrap();
        let mut set_clients_max = |count: u32| {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("maxclients").arg(count).exec(&mut admin).unwrap();
            let info: String = redis::cmd("INFO").arg("stats").query(&mut admin).unwrap();
            let line = info.lines().find_map(|line| line.strip_prefix("rejected_connections:"));
            line.unwrap().trim_end().parse::<u32>().unwrap()
        };
        set_clients_max(1);
        let redis = patient(&server.url()).build().unwrap();
        let quota = failing(&policy("crowd", 10, HOUR_MS), FailureMode::Deny);
        let limiter = Arc::new(redis.limiter(quota).build().unwrap());
        let mut took = flood(&limiter, 1, 1000).await;
        took += flood(&limiter, 128, 200).await;
        let decision = limiter.check("k").await;
        assert_eq!(decision.degraded_reason(), Some(DegradedReason::Rejected), "{decision:?}");
        let stats = limiter.stats();
        assert_ne!(stats.breaker, BreakerState::Closed);
        let refused = set_clients_max(100);
        println!("{refused} connections in {took:?}");
        // The pauses grow to at least half a second.
        let seconds = u32::try_from(took.as_secs()).unwrap();
        assert!(refused > 1 && refused < 10 + 3 * seconds, "{refused} in {took:?}: {stats:?}");
        assert!(stats.failures(DegradedReason::Rejected) >= u64::from(refused) - 1, "{stats:?}");
        eventually("a decision", async || limiter.check("k").await.is_allowed()).await;
    });
}

// A script has 30 KB. A user that may not send one is not sent one for every check.
#[test]
fn user_that_may_not_eval_is_sent_few_scripts() {
    crew().block_on(async {
        let users = "user narrow on >word resetkeys ~sg:* -@all +evalsha +time +get\n";
        let server = RedisServer::builder().users(users).start().unwrap();
        let proxy = Proxy::in_front_of(&server).unwrap();
        let redis = patient(&format!("redis://narrow:word@127.0.0.1:{}", proxy.port()));
        let redis = redis.build().unwrap();
        let quota = failing(&policy("narrow", 10, HOUR_MS), FailureMode::Allow);
        let limiter = Arc::new(redis.limiter(quota).build().unwrap());
        flood(&limiter, 4, 300).await;
        let decision = limiter.check("k").await;
        assert_eq!(decision.degraded_reason(), Some(DegradedReason::Unauthorized));
        let (stats, bytes) = (limiter.stats(), proxy.counters().bytes_to_server);
        println!("{} scripts, {} calls, {bytes} bytes sent", stats.scripts_sent, stats.calls);
        // At most one per caller before the first refusal arrives.
        assert!(stats.scripts_sent <= 5 && stats.calls < 100, "{stats:?}");
        assert_ne!(stats.breaker, BreakerState::Closed);
        let error = limiter.usage("k").await.unwrap_err().to_string();
        assert!(error.contains("no permissions"), "{error}");

        let mut grant = redis::cmd("ACL");
        grant.arg("SETUSER").arg("narrow").arg("+@all");
        grant.exec(&mut server.connection().unwrap()).unwrap();
        let normal = async || !limiter.check("k").await.is_degraded();
        eventually("a decision after the right was granted", normal).await;
    });
}
