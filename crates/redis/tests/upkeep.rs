//! What operators need: memory usage, server settings that weaken limits, and sweeps.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use common::{eventually, patient, policy, runtime};
use slidegate::{Algorithm, Policy, Quota, StatValue, Store};
use slidegate_redis::{Redis, SweepReport, Warning};
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

/// Removes the TTL of all keys, as another program could. Returns their TTLs in milliseconds.
fn persist_all(server: &RedisServer) -> Vec<(String, i64)> {
    let keys = common::keys(server);
    let mut connection = server.connection().unwrap();
    for (name, _) in &keys {
        redis::cmd("PERSIST").arg(name).exec(&mut connection).unwrap();
    }
    keys
}

async fn sweep(redis: &Redis, known: &[&str]) -> SweepReport {
    redis.sweep(known, 1_000_000, |_| {}).await.unwrap()
}

// A rolling upgrade: the new daemon does not know a policy that the old one still decides by.
#[test]
fn a_sweep_keeps_what_counts_under_policies_that_it_does_not_know() {
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
        // Part of another name.
        fill(&redis, "ap", 20).await;
        fill(&redis, "gone", 2500).await;
        fill(&other, "gone", 30).await;
        let limiter = redis.limiter(policy("gone", 5, HOUR_MS)).deny_cache(0).build().unwrap();
        for _ in 0..5 {
            assert!(limiter.check("full").await.is_allowed());
        }
        let before = names(&server);
        // A server may return a key twice while its table is resized.
        let report = sweep(&redis, &["api", "ap"]).await;
        assert!(report.keys >= 4021 && report.unknown >= 2501, "{report:?}");
        assert!(report.unknown_by_policy["gone"] >= 2501, "{report:?}");
        assert_eq!((report.repaired, report.removed, report.foreign), (0, 0, 0));
        assert_eq!(names(&server), before);
        assert!(!limiter.check("full").await.is_allowed());

        // Not even without a TTL.
        persist_all(&server);
        let report = sweep(&redis, &["api"]).await;
        assert_eq!((report.repaired, report.removed), (4021, 0), "{report:?}");
        assert_eq!(names(&server), before);
        assert!(!limiter.check("full").await.is_allowed());
        let again = sweep(&redis, &["api"]).await;
        assert_eq!((again.repaired, again.removed), (0, 0), "{again:?}");
        let without: Vec<String> = common::keys(&server)
            .into_iter()
            .filter(|(name, ttl)| *ttl == -1 && !name.starts_with("other:"))
            .map(|(name, _)| name)
            .collect();
        assert_eq!(without.len(), FOREIGN.len() + 1, "{without:?}");
    });
}

#[test]
fn a_key_without_a_ttl_gets_the_one_that_its_content_needs() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let algorithms = [
        Algorithm::Log,
        Algorithm::LogCapped { bytes_max: 64 },
        Algorithm::Counter,
        Algorithm::Segments { count: 7 },
        Algorithm::Gcra,
        Algorithm::Fixed,
    ];
    let windows = [&[600][..], &[60, 86_400, 3600]];
    runtime().block_on(async {
        let mut longest = BTreeMap::new();
        for (number, algorithm) in algorithms.into_iter().enumerate() {
            for (windows, tick) in windows.into_iter().zip([1, 20]) {
                let quota =
                    |seconds: &u64| Quota::new(1000, Duration::from_secs(*seconds)).unwrap();
                let name = format!("p{number}-{tick}");
                let policy = Policy::builder(&name)
                    .quotas(windows.iter().map(quota))
                    .algorithm(algorithm)
                    .build()
                    .unwrap();
                let tick = Duration::from_millis(tick);
                let limiter = redis.limiter(policy).tick(tick).deny_cache(0).build().unwrap();
                for _ in 0..300 {
                    assert!(limiter.check("k").await.is_allowed());
                }
                let cost = slidegate::Cost::new(700).unwrap();
                assert!(limiter.check_cost("k", cost).await.is_allowed());
                limiter.block("k", Duration::from_secs(120)).await.unwrap();
                limiter.block("blocked", Duration::from_secs(120)).await.unwrap();
                longest.insert(name, i64::try_from(*windows.iter().max().unwrap()).unwrap() * 1000);
            }
        }
        let before: BTreeMap<String, i64> = persist_all(&server).into_iter().collect();
        assert_eq!(before.len(), 36);
        let report = sweep(&redis, &[]).await;
        assert_eq!((report.repaired, report.removed, report.foreign), (36, 0, 0), "{report:?}");
        for (name, ttl) in common::keys(&server) {
            let window = longest[name.split([':', ';', '@']).nth(2).unwrap()];
            let is_state = name.contains(";tk") && !name.ends_with(";tk");
            // A little less than the units last, because the slack of keys in tests is an hour.
            let least = if is_state { window * 9 / 10 } else { 110_000 };
            let most = if is_state { 2 * window + 2000 } else { 121_100 };
            assert!((least..=most).contains(&ttl), "{name}: {ttl} ms, before {} ms", before[&name]);
        }
    });
}

#[test]
fn a_key_without_a_ttl_is_removed_once_all_its_units_have_expired() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    runtime().block_on(async {
        let limiter = redis.limiter(policy("brief", 5, 50)).build().unwrap();
        let foreign = ["sg:{012345}:brief;tx", "sg:{012345}:brief@gcra-7us;ty"];
        let mut connection = server.connection().unwrap();
        redis::cmd("SET").arg(foreign[0]).arg("data of others").exec(&mut connection).unwrap();
        redis::cmd("HSET").arg(foreign[1]).arg("a").arg("b").exec(&mut connection).unwrap();
        assert!(limiter.check("k").await.is_allowed());
        persist_all(&server);
        let mut removed = 0;
        eventually("the end of the window", async || {
            let report = sweep(&redis, &["brief"]).await;
            assert_eq!(report.foreign, 2, "{report:?}");
            removed += report.removed;
            // A repaired key would go by itself.
            if report.repaired > 0 {
                persist_all(&server);
            }
            removed == 1
        })
        .await;
        eventually("the removal", async || names(&server).len() == 2).await;
        assert_eq!(names(&server), foreign.map(str::to_owned).into());
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

        let is_primary =
            |node: &&RedisServer| node.info("replication", "role").unwrap() == "master";
        let primaries: Vec<&RedisServer> = cluster.nodes().iter().filter(is_primary).collect();
        for node in &primaries {
            persist_all(node);
        }
        let report = sweep(&redis, &["api"]).await;
        assert_eq!((report.unknown, report.repaired), (900, 1200), "{report:?}");
        let ttls = |node: &RedisServer| common::keys(node).into_iter().map(|(_, ttl)| ttl);
        assert!(primaries.into_iter().flat_map(ttls).all(|ttl| ttl > 0));
        assert_eq!(redis.usage().await.unwrap().keys, 1200);
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
        let (mut steps, started) = (Vec::new(), tokio::time::Instant::now());
        let progress = |report: &SweepReport| steps.push(report.keys);
        let report = redis.sweep(&["api"], 4000, progress).await.unwrap();
        // At least three pauses of an eighth of a second, since a step examines about 512 keys.
        assert!(started.elapsed() >= Duration::from_millis(375), "{:?}", started.elapsed());
        assert!(steps.len() >= 4 && steps.is_sorted(), "{steps:?}");
        assert_eq!((report.unknown, report.repaired), (0, 0));
        assert!(report.keys >= 2000);
    });
}
