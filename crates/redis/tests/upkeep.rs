//! What operators need: memory usage, server settings that weaken limits, and keys of removed
//! policies.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::collections::BTreeSet;
use std::time::Duration;

use common::{patient, policy, runtime};
use slidegate::{StatValue, Store};
use slidegate_redis::{Redis, SweepOptions, SweepReport, Warning};
use slidegate_testkit::server::{Cluster, RedisServer};

const HOUR_MS: u64 = 3_600_000;

#[test]
fn a_server_that_evicts_is_warned_of() {
    let ways = [
        ("allkeys-lru", true),
        ("allkeys-lfu", true),
        ("volatile-ttl", true),
        ("volatile-lru", true),
        ("noeviction", false),
    ];
    for (way, warned) in ways {
        let server = RedisServer::builder().max_memory(64 << 20, way).start().unwrap();
        let redis = patient(&server.url()).build().unwrap();
        let warnings = runtime().block_on(redis.warnings()).unwrap();
        assert_eq!(warnings.len(), usize::from(warned), "{way}: {warnings:?}");
        let usage = runtime().block_on(redis.usage()).unwrap();
        assert_eq!(usage.evicting, u64::from(warned), "{way}");
        for warning in warnings {
            let text = warning.to_string();
            assert!(text.contains(way) && text.contains("noeviction"), "{text}");
            assert!(text.contains(&server.port().to_string()), "{text}");
            assert!(matches!(warning, Warning::Evicts { policy, .. } if policy == way));
        }
    }
    // By default, without any bound.
    let server = RedisServer::valkey().start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    assert!(runtime().block_on(redis.warnings()).unwrap().is_empty());
}

// The setting changes long after the start.
#[test]
fn eviction_switched_on_later_is_noticed() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 5, HOUR_MS)).build().unwrap();
    let runtime = runtime();
    let evicting = || {
        runtime.block_on(limiter.refresh_stats()).unwrap();
        let stats = Store::stats(&limiter);
        let name = "rate_limit_store_evicting_servers";
        stats.iter().find(|stat| stat.name == name).unwrap().value
    };
    assert_eq!(evicting(), StatValue::Gauge(0));
    let mut set = redis::cmd("CONFIG");
    set.arg("SET").arg("maxmemory-policy").arg("allkeys-lru");
    set.exec(&mut server.connection().unwrap()).unwrap();
    assert_eq!(evicting(), StatValue::Gauge(1));
    let warnings = runtime.block_on(Store::warnings(&limiter)).unwrap();
    assert!(warnings[0].contains("allkeys-lru"), "{warnings:?}");
}

#[test]
fn usage_is_what_the_server_says() {
    let most = 8 << 20;
    let server = RedisServer::builder().max_memory(most, "allkeys-lru").start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 5, HOUR_MS)).build().unwrap();
    let mut connection = server.connection().unwrap();
    runtime().block_on(async {
        let empty = redis.usage().await.unwrap();
        assert_eq!((empty.keys, empty.bytes_max, empty.evicted), (0, most, 0));
        for number in 0..50 {
            assert!(limiter.check(number.to_string()).await.is_allowed());
        }
        let used = redis.usage().await.unwrap();
        assert_eq!(used.keys, 50);
        assert!(used.bytes > 100_000 && used.bytes < most, "{}", used.bytes);
        // Another client fills the server: evictions begin, and the report shows them.
        let value = "x".repeat(100_000);
        for number in 0..150 {
            redis::cmd("SET")
                .arg(format!("foreign{number}"))
                .arg(&value)
                .exec(&mut connection)
                .unwrap();
        }
        let full = redis.usage().await.unwrap();
        let said: u64 = server.info("stats", "evicted_keys").unwrap().parse().unwrap();
        // The connection that asks takes memory, too, so that a few more may have gone meanwhile.
        assert!(full.evicted > 0 && (full.evicted..full.evicted + 10).contains(&said));
    });
    let unbounded = RedisServer::start().unwrap();
    let redis = patient(&unbounded.url()).build().unwrap();
    assert_eq!(runtime().block_on(redis.usage()).unwrap().bytes_max, 0);
}

/// Keys of others, some of them much like ours.
const FOREIGN: [&str; 12] = [
    "sg",
    "sg:",
    "sg:{",
    "sg:{}:gone;tx",
    "sg:{0123}:gone;tx",
    "sg:{012345}",
    "sg:{012345}:gone",
    "sg:{012345}:gone;x",
    "sg:{01234g}:gone;tx",
    "sg2:{012345}:gone;tx",
    "xsg:{012345}:gone;tx",
    "session:42",
];

fn names(server: &RedisServer) -> BTreeSet<String> {
    common::keys(server).into_iter().map(|(name, _)| name).collect()
}

async fn fill(redis: &Redis, name: &str, keys: usize) {
    let limiter = redis.limiter(policy(name, 5, HOUR_MS)).build().unwrap();
    for number in 0..keys {
        assert!(!limiter.check(format!("user{number}")).await.is_degraded());
    }
}

#[test]
fn a_sweep_removes_what_is_orphaned_and_nothing_else() {
    let server = RedisServer::start().unwrap();
    let mut connection = server.connection().unwrap();
    for name in FOREIGN {
        redis::cmd("SET").arg(name).arg("data").exec(&mut connection).unwrap();
    }
    redis::cmd("HSET").arg("a hash").arg("field").arg("data").exec(&mut connection).unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let other = patient(&server.url()).prefix("other").build().unwrap();
    runtime().block_on(async {
        fill(&redis, "api", 1500).await;
        // Part of another name, and more than one.
        fill(&redis, "ap", 20).await;
        fill(&redis, "gone", 2500).await;
        fill(&other, "gone", 30).await;
        let before = names(&server);
        let of = |name: &str| {
            let part = format!("}}:{name};");
            let ours = |key: &&String| key.starts_with("sg:{") && key.contains(&part);
            before.iter().filter(ours).filter(|key| !FOREIGN.contains(&key.as_str())).count()
        };
        assert_eq!((of("api"), of("ap"), of("gone")), (1500, 20, 2500));

        // A dry run changes nothing. (A server may return a key twice while its table is resized.)
        let report = redis.sweep(&["api", "ap"], false).await.unwrap();
        assert!(report.keys >= 4020 && report.orphans >= 2500, "{report:?}");
        assert_eq!(report.removed, 0);
        assert_eq!(names(&server), before);

        let report = redis.sweep(&["api"], true).await.unwrap();
        assert_eq!(report.removed, 2520, "{report:?}");
        let after = names(&server);
        let kept = before.iter().filter(|key| {
            let orphaned = key.contains("}:gone;t") || key.contains("}:ap;t");
            !(orphaned && key.starts_with("sg:{")) || FOREIGN.contains(&key.as_str())
        });
        assert_eq!(after, kept.cloned().collect());

        let again = redis.sweep(&["api"], true).await.unwrap();
        assert_eq!((again.orphans, again.removed), (0, 0));
        // Without any policy, all of the limiter's keys are orphaned; those of other programs are not.
        let none: [&str; 0] = [];
        assert_eq!(redis.sweep(&none, true).await.unwrap().removed, 1500);
        assert_eq!(names(&server).len(), FOREIGN.len() + 1 + 30);
    });
}

#[test]
fn in_a_cluster_all_primaries_are_looked_at() {
    let node = RedisServer::builder().max_memory(64 << 20, "volatile-ttl");
    let cluster = Cluster::start(&node).unwrap();
    let long = Duration::from_secs(10);
    let builder = Redis::cluster(&cluster.urls()).unwrap().deadline(long).connect_deadline(long);
    let redis = builder.build().unwrap();
    runtime().block_on(async {
        fill(&redis, "api", 300).await;
        fill(&redis, "gone", 900).await;
        let usage = redis.usage().await.unwrap();
        assert_eq!((usage.keys, usage.bytes_max), (1200, 3 * (64 << 20)));
        let warnings = redis.warnings().await.unwrap();
        let warned: BTreeSet<String> = warnings.iter().map(ToString::to_string).collect();
        // Each evicts keys, and refuses all of them when some slots are not served.
        assert_eq!(warned.len(), 6, "{warned:?}");
        for kind in ["evicts", "full_coverage"] {
            assert_eq!(warnings.iter().filter(|warning| warning.kind() == kind).count(), 3);
        }
        for server in cluster.nodes() {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("cluster-require-full-coverage").arg("no");
            set.exec(&mut server.connection().unwrap()).unwrap();
        }
        assert_eq!(redis.warnings().await.unwrap().len(), 3);

        let report = redis.sweep(&["api"], true).await.unwrap();
        assert_eq!(report.removed, 900, "{report:?}");
        assert_eq!(redis.usage().await.unwrap().keys, 300);
        assert_eq!(redis.sweep(&["api"], true).await.unwrap().orphans, 0);
    });
}

#[test]
fn a_sample_shows_which_policies_fill_the_server() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    runtime().block_on(async {
        assert_eq!(redis.sample(100).await.unwrap().samples, 0);
        fill(&redis, "api", 300).await;
        fill(&redis, "rare", 30).await;
        let mut connection = server.connection().unwrap();
        for number in 0..300 {
            let name = format!("foreign{number}");
            redis::cmd("SET").arg(name).arg("data").exec(&mut connection).unwrap();
        }
        let sample = redis.sample(1000).await.unwrap();
        assert_eq!(sample.samples, 1000);
        let (keys, bytes) = sample.policies["api"];
        // 476 of a thousand are expected; 20 of those are one standard deviation.
        assert!((300..650).contains(&keys), "{sample:?}");
        assert!(bytes / keys > 60 && bytes / keys < 1000, "{sample:?}");
        assert!(sample.policies["rare"].0 < keys / 3, "{sample:?}");
        assert_eq!(sample.policies.len(), 2);
    });
}

#[test]
fn a_sweep_keeps_to_its_pace_and_shows_its_progress() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    runtime().block_on(async {
        fill(&redis, "api", 2000).await;
        let options = SweepOptions::default().keys_per_second(4000);
        let (mut steps, started) = (Vec::new(), tokio::time::Instant::now());
        let progress = |report: &SweepReport| steps.push(report.keys);
        let report = redis.sweep_with(&["api"], options, progress).await.unwrap();
        // At least three pauses of an eighth of a second, since a step examines about 512 keys.
        assert!(started.elapsed() >= Duration::from_millis(375), "{:?}", started.elapsed());
        assert!(steps.len() >= 4 && steps.is_sorted(), "{steps:?}");
        assert_eq!((report.orphans, report.without_ttl), (0, 0));
        assert!(report.keys >= 2000);
    });
}
