//! All ways to connect: passwords, users, databases, protocols, sockets, TLS, Sentinel, Cluster;
//! their errors; and which limiters share state.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a panic fails the test")]

mod common;

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use common::{crew, eventually, patient, policy, runtime};
use slidegate::{Cost, Decision, DegradedReason, ErrorKind, FailureMode, Policy, Quota};
use slidegate_redis::{BreakerState, Redis, RedisAsk, RedisBuilder, check_all, join};
use slidegate_testkit::server::{Certificates, Cluster, PATIENCE, Proxy, RedisServer, Sentinel};

const HOUR_MS: u64 = 3_600_000;
const PASSWORD: &str = "p@ss/word?#1 {secret}";

/// Asserts that Redis allows two of three checks.
fn works(builder: RedisBuilder) {
    let redis = builder.build().unwrap();
    let limiter = redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap();
    runtime().block_on(async {
        let mut allowed = 0;
        for _ in 0..3 {
            let decision = limiter.check("alice").await;
            if decision.is_degraded() {
                let error = limiter.peek("alice").await.map(|_| ()).unwrap_err();
                assert!(!decision.is_degraded(), "{error}");
            }
            allowed += u32::from(decision.is_allowed());
        }
        assert_eq!(allowed, 2);
        assert_eq!(limiter.usage("alice").await.unwrap().units(0), 2);
        assert_eq!(limiter.stats().degraded, 0);
        assert!(limiter.reset("alice").await.unwrap());
    });
}

/// Asserts that the failure mode decides, that it is counted, and that the error contains the
/// reason.
fn fails(builder: RedisBuilder, secrets: &[&str]) -> String {
    let shown = format!("{builder:?} ");
    let redis = builder.breaker(3, Duration::from_secs(60)).build().unwrap();
    let deny = Policy::builder("api").quota(Quota::per_hour(2));
    let deny = deny.failure_mode(FailureMode::Deny).build().unwrap();
    let (opens, closes) = (
        redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap(),
        redis.limiter(deny).build().unwrap(),
    );
    let (error, shown) = runtime().block_on(async {
        let error = opens.peek("alice").await.unwrap_err();
        assert!(error.is_store());
        let mut texts = shown + &show(&error) + &error.to_string();
        for _ in 0..4 {
            let (allowed, denied) = (opens.check("alice").await, closes.check("alice").await);
            assert!(allowed.is_allowed() && allowed.is_degraded());
            assert!(!denied.is_allowed() && denied.is_degraded());
            texts += &(show(&allowed) + &show(&denied));
        }
        let stats = opens.stats();
        assert_eq!((stats.degraded, stats.decisions), (4, 4));
        assert_eq!((stats.breaker, stats.breaker_opened), (BreakerState::Open, 1));
        for answer in [redis.usage().await.map(|_| ()), redis.warnings().await.map(|_| ())] {
            texts += &answer.unwrap_err().to_string();
        }
        texts += &(show(&opens) + &show(&redis) + &show(&stats));
        (error.to_string(), texts)
    });
    for secret in secrets {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    error
}

fn show(thing: &dyn Debug) -> String {
    format!("{thing:?} {thing:#?} ")
}

#[test]
fn passwords() {
    let server = RedisServer::builder().password(PASSWORD).start().unwrap();
    let bare = format!("redis://127.0.0.1:{}", server.port());
    works(patient(&server.url()));
    works(patient(&bare).password(PASSWORD));
    // The builder takes precedence over the address.
    works(patient(&server.url_as("", "wrong")).password(PASSWORD));

    let error = fails(patient(&bare).password("not-the-word"), &["not-the-word"]);
    let (port, text) = (server.port().to_string(), error.to_lowercase());
    assert!(text.contains(&port) && text.contains("wrongpass"), "{error}");
    fails(patient(&bare), &[PASSWORD]);
}

#[test]
fn users() {
    let users = "user default off\nuser carol on >carols-word ~sg:* +@all\n";
    let server = RedisServer::builder().users(users).start().unwrap();
    let bare = format!("redis://127.0.0.1:{}", server.port());
    works(patient(&server.url_as("carol", "carols-word")));
    works(patient(&bare).username("carol").password("carols-word"));
    works(patient(&server.url_as("dave", "carols-word")).username("carol"));

    let error = fails(patient(&server.url_as("carol", "not-her-word")), &["not-her-word"]);
    assert!(error.contains("WRONGPASS"), "{error}");
    // The user may not access other prefixes.
    let other = patient(&server.url_as("carol", "carols-word")).prefix("other");
    let error = fails_unasked(other);
    assert!(error.to_lowercase().contains("permission"), "{error}");
    assert!(!error.contains("carols-word"), "{error}");
    fails(patient(&bare), &["carols-word"]);
}

#[test]
fn a_separate_database() {
    let server = RedisServer::start().unwrap();
    let in_address = format!("{}3", server.url());
    for (builder, number) in [(patient(&in_address), 3), (patient(&server.url()).database(5), 5)] {
        works(builder);
        let mut connection = server.connection().unwrap();
        redis::cmd("SELECT").arg(number).exec(&mut connection).unwrap();
        let keys: u64 = redis::cmd("DBSIZE").query(&mut connection).unwrap();
        assert_eq!(keys, 1, "database {number}");
    }
    assert!(common::keys(&server).is_empty(), "database 0 was not asked for");
    let error = fails(patient(&format!("{}99", server.url())), &[]);
    assert!(error.contains("DB index"), "{error}");
}

#[test]
fn resp3() {
    for server in [RedisServer::builder(), RedisServer::valkey()] {
        let server = server.password(PASSWORD).start().unwrap();
        let url = server.url_as("", PASSWORD) + "?protocol=resp3";
        works(patient(&url));
        let redis = patient(&url).build().unwrap();
        runtime().block_on(async {
            let usage = redis.usage().await.unwrap();
            assert!(usage.bytes > 0);
            assert!(redis.warnings().await.unwrap().is_empty());
            assert_eq!(redis.sweep(&["api"], 1000, |_| {}).await.unwrap().removed, 0);
            let mut connection = server.connection().unwrap();
            let clients: String = redis::cmd("CLIENT").arg("LIST").query(&mut connection).unwrap();
            assert!(clients.contains("resp=3"), "{clients}");
        });
    }
}

#[test]
fn a_socket() {
    let server = RedisServer::builder().only_unix_socket().password("word").start().unwrap();
    works(patient(&server.unix_url()));
    let path = server.unix_url().split('?').next().unwrap().to_owned();
    works(patient(&path).password("word"));
    fails(patient(&path), &["word"]);
}

#[test]
fn tls_with_a_private_authority() {
    let (ours, theirs) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let server = RedisServer::builder().tls(&ours).password(PASSWORD).start().unwrap();
    let url = server.url_as("", PASSWORD);
    assert!(url.starts_with("rediss://"));
    works(patient(&url).tls_authority(ours.authority().as_bytes()));
    // Another authority, and that of the system.
    let wrong = patient(&url).tls_authority(theirs.authority().as_bytes());
    for builder in [wrong, patient(&url)] {
        let error = fails(builder, &[PASSWORD, "BEGIN CERT"]);
        assert!(error.to_lowercase().contains("certificate"), "{error}");
    }
    // Without TLS, nothing can be read.
    fails(patient(&url.replace("rediss", "redis")), &[PASSWORD]);
}

#[test]
fn tls_with_a_client_certificate() {
    let (ours, theirs) = (Certificates::new().unwrap(), Certificates::new().unwrap());
    let server = RedisServer::builder().tls(&ours).config("tls-auth-clients yes").start().unwrap();
    let trusting = || patient(&server.url()).tls_authority(ours.authority().as_bytes());
    let showing = |shown: &Certificates| {
        trusting().tls_certificate(shown.server().as_bytes(), shown.server_key().as_bytes())
    };
    works(showing(&ours));
    let key_text = theirs.server_key().lines().nth(1).unwrap();
    fails(showing(&theirs), &[key_text]);
    fails(trusting(), &[]);

    // An invalid certificate is rejected immediately, without being shown.
    for (certificate, key) in [("nonsense", ours.server_key()), (ours.server(), "my secret key")] {
        let builder = trusting().tls_certificate(certificate.as_bytes(), key.as_bytes());
        let error = builder.build().unwrap_err().to_string();
        for secret in ["nonsense", "my secret key", key.lines().nth(1).unwrap_or("my secret")] {
            assert!(!error.contains(secret), "{error}");
        }
    }
    let plain = server.url().replace("rediss", "redis");
    let authority = ours.authority().as_bytes();
    for (builder, remedy) in [
        (patient(&server.url()).tls_authority(b"nonsense"), "use PEM"),
        (patient(&plain).tls_authority(authority), "use rediss://"),
        (Redis::cluster(&[server.url(), plain]).unwrap().tls_authority(authority), "use rediss://"),
    ] {
        let error = builder.build().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains(remedy), "{error}");
    }
}

#[test]
fn sentinels() {
    let sentinel = Sentinel::start(&RedisServer::builder().password(PASSWORD)).unwrap();
    let long = Duration::from_secs(10);
    let builder = |service: &str| {
        let builder = Redis::sentinel(&sentinel.sentinel_urls(), service).unwrap();
        builder.deadline(long).connect_deadline(long)
    };
    works(builder(sentinel.service_name()).password(PASSWORD));
    let error = fails_unasked(builder("unheard-of").password(PASSWORD));
    assert!(error.contains("unheard-of") && !error.contains(PASSWORD), "{error}");
    fails(builder(sentinel.service_name()).password("not the word"), &["not the word"]);
}

/// Like `fails`, without a primary that could have a breaker.
fn fails_unasked(builder: RedisBuilder) -> String {
    let limiter = builder.build().unwrap().limiter(policy("api", 2, HOUR_MS)).build().unwrap();
    runtime().block_on(async {
        let decision = limiter.check("alice").await;
        assert!(decision.is_allowed() && decision.is_degraded());
        limiter.peek("alice").await.unwrap_err().to_string()
    })
}

#[test]
fn a_cluster_behind_tls_and_a_password() {
    let certificates = Certificates::new().unwrap();
    let node = RedisServer::builder().tls(&certificates).password(PASSWORD);
    let cluster = Cluster::start(&node).unwrap();
    let long = Duration::from_secs(10);
    let builder = |url: &str| {
        let builder = Redis::cluster(&[url]).unwrap().deadline(long).connect_deadline(long);
        builder.tls_authority(certificates.authority().as_bytes())
    };
    // One node is enough to find the others, also a replica.
    let last = cluster.nodes().last().unwrap();
    let redis = builder(&last.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap();
    runtime().block_on(async {
        for number in 0..60 {
            for expected in [true, true, false] {
                let decision = limiter.check(format!("user{number}")).await;
                assert_eq!((decision.is_allowed(), decision.is_degraded()), (expected, false));
            }
        }
        let stats = limiter.stats();
        assert_eq!((stats.redirects, stats.errors), (0, 0));
        // Every primary, and the replica that was queried for the slots.
        assert!((3..=4).contains(&stats.connections), "{}", stats.connections);
        assert_eq!(redis.usage().await.unwrap().keys, 60);
    });
    let error = fails_unasked(builder(&last.url_as("", "not the word")));
    assert!(!error.contains("not the word"), "{error}");
}

// A seed that is not the address of a primary is needed only to find them. Kept, it costs a connection,
// and one that no longer exists is reconnected forever.
#[test]
fn seeds_are_dropped_when_the_primaries_are_known() {
    let cluster = Cluster::start(&RedisServer::builder()).unwrap();
    let clients_of = |node: &RedisServer| {
        let mut list = redis::cmd("CLIENT");
        list.arg("LIST").arg("TYPE").arg("normal");
        list.query::<String>(&mut node.connection().unwrap()).unwrap().lines().count()
    };
    let clients = || cluster.nodes().iter().map(clients_of).sum::<usize>();
    crew().block_on(async {
        let before = clients();
        let seed = Proxy::in_front_of(&cluster.nodes()[0]).unwrap();
        let long = Duration::from_secs(10);
        let redis = Redis::cluster(&[seed.url()]).unwrap().deadline(long).connect_deadline(long);
        let limiter = redis.build().unwrap().limiter(policy("api", 2, HOUR_MS)).build().unwrap();
        assert!(!limiter.check("alice").await.is_degraded());
        let is_connected = async || limiter.stats().connections == 4;
        eventually("the seed and three primaries", is_connected).await;
        eventually("no connection to the seed", async || clients() == before + 3).await;
        for number in 0..60 {
            assert!(!limiter.check(format!("user{number}")).await.is_degraded());
        }
        assert_eq!(limiter.stats().connections, 4);
    });
}

// Everything that distinguishes two states, with texts that would collide if they were just
// concatenated.
#[test]
fn only_equal_settings_share_state() {
    let server = RedisServer::start().unwrap();
    let limiter = |prefix: &str, name: &str| {
        let redis = patient(&server.url()).prefix(prefix).build().unwrap();
        redis.limiter(policy(name, 1, HOUR_MS)).build().unwrap()
    };
    let long = "x".repeat(200);
    let digest = "d2d97a94bb1f4bd7a8f7cd5ba2b0dd2d";
    let keys: [&[u8]; 14] = [
        b"",
        b"a",
        b"A",
        b"a:b",
        b"a%3Ab",
        b"a;b",
        b"{a}",
        b"{a}b",
        b"a\0",
        b"\xff\xfe",
        b"tx",
        long.as_bytes(),
        digest.as_bytes(),
        &join(&["a", "b:c"]),
    ];
    runtime().block_on(async {
        let mut states = 0;
        for prefix in ["sg", "sg2", "s.g"] {
            for name in ["api", "api2", "a:pi", "api:a", "x/*"] {
                let (one, same) = (limiter(prefix, name), limiter(prefix, name));
                for key in keys {
                    let decision = one.check(key).await;
                    assert!(decision.is_allowed(), "{prefix} {name} {key:?} met another");
                    assert!(!same.check(key).await.is_allowed(), "{prefix} {name} {key:?}");
                    states += 1;
                }
                assert_eq!(one.stats().degraded + same.stats().degraded, 0);
            }
        }
        assert_eq!(common::keys(&server).len(), states);
    });
}

// A typo in a password must not disable all limits silently.
#[test]
fn connect_reports_permanent_errors_immediately() {
    let long = Duration::from_secs(600);
    let certificates = [Certificates::new().unwrap(), Certificates::new().unwrap()];
    let users = "user default on >word ~* &* +@all\nuser reader on >word ~sg:* -@all +get\n";
    let plain = RedisServer::builder().users(users).start().unwrap();
    let secure = RedisServer::builder().tls(&certificates[0]).start().unwrap();
    let authority = certificates[1].authority().as_bytes();
    let other = patient(&plain.url_as("reader", "word")).prefix("other");
    for (builder, reason) in [
        (patient(&plain.url_as("", "wrong")), DegradedReason::Unauthorized),
        (patient(&plain.url_as("reader", "word")), DegradedReason::Unauthorized),
        (other, DegradedReason::Unauthorized),
        (patient(&secure.url()).tls_authority(authority), DegradedReason::Tls),
    ] {
        let redis = builder.build().unwrap();
        let limiter = redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap();
        runtime().block_on(async {
            let error = redis.connect(long).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Setting, "{error}");
            let decision = limiter.check("alice").await;
            assert_eq!(decision.degraded_reason(), Some(reason), "{error}");
            assert!(limiter.stats().failures(reason) > 0, "{error}");
        });
    }
    runtime().block_on(async {
        let redis = patient(&plain.url_as("", "word")).build().unwrap();
        redis.connect(long).await.unwrap();
    });
}

#[test]
fn connect_waits_for_a_server_that_is_down() {
    crew().block_on(async {
        let mut server = RedisServer::start().unwrap();
        server.kill().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let error = redis.connect(Duration::from_millis(100)).await.unwrap_err().to_string();
        assert!(error.contains(&server.port().to_string()), "{error}");
        let waiting = tokio::spawn({
            let redis = redis.clone();
            async move { redis.connect(PATIENCE).await }
        });
        server.restart().unwrap();
        waiting.await.unwrap().unwrap();
        // No clock reaches the end of this time.
        redis.connect(Duration::MAX).await.unwrap();
        let limiter = redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap();
        assert!(!limiter.check("alice").await.is_degraded());
        assert!(limiter.stats().failures(DegradedReason::Unreachable) > 0);
    });
}

// Calls in flight use different connections. A pool without a connection is no reason to count a check
// that was never sent.
#[test]
fn pool_of_the_user() {
    let server = RedisServer::start().unwrap();
    let runtime = crew();
    runtime.block_on(async {
        let connect =
            || async { server.client().unwrap().get_multiplexed_async_connection().await };
        let connections = [connect().await.unwrap(), connect().await.unwrap()];
        let (next, is_empty) = (AtomicUsize::new(0), Arc::new(AtomicBool::new(false)));
        let redis = Redis::from_pool({
            let is_empty = Arc::clone(&is_empty);
            move || {
                let place = next.fetch_add(1, Ordering::Relaxed) % connections.len();
                let connection = connections[place].clone();
                let got =
                    if is_empty.load(Ordering::Relaxed) { Err("empty") } else { Ok(connection) };
                async move { got }
            }
        });
        let redis = redis.deadline(Duration::from_secs(10)).build().unwrap();
        redis.connect(PATIENCE).await.unwrap();
        let limiter = redis.limiter(policy("api", 20, HOUR_MS)).build().unwrap();
        let checks = (0..30).map(|_| limiter.check("alice"));
        let decisions = futures_util::future::join_all(checks).await;
        assert_eq!(decisions.iter().filter(|decision| decision.is_allowed()).count(), 20);
        assert!(decisions.iter().all(|decision| !decision.is_degraded()), "{decisions:?}");
        is_empty.store(true, Ordering::Relaxed);
        let decision = limiter.check("bob").await;
        assert_eq!(decision.degraded_reason(), Some(DegradedReason::Unreachable));
        assert_eq!(limiter.stats().unknown, 0);
        is_empty.store(false, Ordering::Relaxed);
        assert!(!limiter.check("bob").await.is_degraded());
    });
}

/// Polls a future once, without a runtime.
fn poll_once<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits for a runtime that is not there"),
    }
}

#[test]
fn outside_of_a_runtime_the_failure_mode_decides() {
    let server = RedisServer::start().unwrap();
    let sentinel = Redis::sentinel(&[server.url()], "service").unwrap();
    let cluster = Redis::cluster(&[server.url()]).unwrap();
    for builder in [patient(&server.url()), sentinel, cluster] {
        let redis = builder.build().unwrap();
        let lease = Duration::from_millis(50);
        let plain = redis.limiter(policy("plain", 2, HOUR_MS)).build().unwrap();
        let leased = redis.limiter(policy("leased", 9, HOUR_MS)).leases(lease).build().unwrap();
        for limiter in [&plain, &leased] {
            for _ in 0..3 {
                let decision = poll_once(limiter.check("k"));
                assert_eq!(decision.degraded_reason(), Some(DegradedReason::NoRuntime));
            }
            let error = poll_once(limiter.peek("k")).unwrap_err();
            assert!(error.to_string().contains("tokio runtime"), "{error}");
            poll_once(limiter.reset("k")).unwrap_err();
        }
        let asks = ["a", "b"].map(|key| RedisAsk::new(&plain, key, Cost::ONE));
        let decisions = poll_once(check_all(&asks)).unwrap();
        assert!(decisions.iter().all(Decision::is_degraded));
        poll_once(redis.usage()).unwrap_err();
        poll_once(redis.connect(lease)).unwrap_err();
    }
}

// Each `block_on` of a program without a global runtime creates a new one, and the connections of
// the previous one are gone.
#[test]
fn limiter_survives_the_end_of_its_runtime() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 9, HOUR_MS)).build().unwrap();
    for _ in 0..4 {
        let decision = runtime().block_on(limiter.check("alice"));
        assert!(decision.is_allowed() && !decision.is_degraded(), "{decision:?}");
    }
}

#[test]
fn connection_of_the_user() {
    let server = RedisServer::builder().password(PASSWORD).start().unwrap();
    let runtime = crew();
    let connection = runtime.block_on(async {
        server.client().unwrap().get_multiplexed_async_connection().await.unwrap()
    });
    let _guard = runtime.enter();
    let long = Duration::from_secs(10);
    works(Redis::from_connection(connection.clone()).deadline(long));
    works(Redis::from_cluster_connection(connection.clone()).deadline(long));
    let redis = Redis::from_connection(connection).deadline(long);
    let redis = redis.build().unwrap();
    runtime.block_on(async {
        redis.connect(PATIENCE).await.unwrap();
        assert!(redis.usage().await.unwrap().bytes > 0);
        let limiter = redis.limiter(policy("api", 2, HOUR_MS)).build().unwrap();
        drop(server);
        let decision = limiter.check("alice").await;
        assert_eq!(decision.degraded_reason(), Some(DegradedReason::Unreachable));
    });
}
