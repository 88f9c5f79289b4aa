//! Primaries die, slots move, Sentinels choose: those concerned are back within seconds, all others
//! notice nothing.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{crew, eventually, failing, policy};
use slidegate::{Cost, DegradedReason, FailureMode};
use slidegate_redis::{BreakerState, Redis, RedisAsk, RedisBuilder, RedisLimiter, check_all};
use slidegate_testkit::server::{Cluster, Proxy, RedisServer, ReplyFault, Sentinel, ServerBuilder};
use tokio::task::JoinSet;
use tokio::time::Instant;

const HOUR_MS: u64 = 3_600_000;
const LONG: Duration = Duration::from_secs(10);

/// How soon after another primary is there a decision is Redis's again.
const RECOVERY_MAX: Duration = Duration::from_secs(3);

fn patient(builder: RedisBuilder) -> Redis {
    builder.deadline(LONG).connect_deadline(LONG).build().unwrap()
}

/// Nodes of a cluster that serve their slots also while others are not served.
fn node() -> ServerBuilder {
    RedisServer::builder().config("cluster-require-full-coverage no")
}

fn limiter(redis: &Redis, name: &str, limit: u64) -> Arc<RedisLimiter> {
    let quota = failing(&policy(name, limit, HOUR_MS), FailureMode::Deny);
    Arc::new(redis.limiter(quota).deny_cache(0).build().unwrap())
}

/// What callers of one key have seen.
#[derive(Debug, Default)]
struct KeyOutcomes {
    admitted: AtomicU64,
    denied: AtomicU64,
    degraded: AtomicU64,
}

impl KeyOutcomes {
    fn admitted(&self) -> u64 {
        self.admitted.load(Ordering::Relaxed)
    }

    fn degraded(&self) -> u64 {
        self.degraded.load(Ordering::Relaxed)
    }

    /// Decisions that Redis made.
    fn decided(&self) -> u64 {
        self.admitted() + self.denied.load(Ordering::Relaxed)
    }
}

/// Callers that check several keys until they are stopped.
struct Load {
    tasks: JoinSet<()>,
    over: Arc<AtomicBool>,
    seen: Arc<BTreeMap<String, KeyOutcomes>>,
}

impl Load {
    fn start(limiter: &Arc<RedisLimiter>, keys: &[String], callers: usize) -> Self {
        let seen = keys.iter().map(|key| (key.clone(), KeyOutcomes::default())).collect();
        let (over, seen) = (Arc::<AtomicBool>::default(), Arc::new(seen));
        let mut tasks = JoinSet::new();
        for _ in 0..callers {
            let (limiter, over, seen) = (Arc::clone(limiter), Arc::clone(&over), Arc::clone(&seen));
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    ask_each(&limiter, &seen).await;
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
            });
        }
        Self { tasks, over, seen }
    }

    /// Waits for more decisions of Redis on a key.
    async fn more(&self, key: &str, count: u64) -> Duration {
        let before = self.seen[key].decided();
        eventually(key, async || self.seen[key].decided() > before + count).await
    }

    async fn stop(self) -> Arc<BTreeMap<String, KeyOutcomes>> {
        self.over.store(true, Ordering::Relaxed);
        self.tasks.join_all().await;
        self.seen
    }
}

async fn ask_each(limiter: &RedisLimiter, keys: &BTreeMap<String, KeyOutcomes>) {
    for (key, seen) in keys {
        let decision = limiter.check(key).await;
        let count = if decision.is_degraded() {
            &seen.degraded
        } else if decision.is_allowed() {
            &seen.admitted
        } else {
            &seen.denied
        };
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// The names of all keys, as any node has them.
fn names(cluster: &Cluster) -> BTreeSet<String> {
    let names = cluster.nodes().iter().flat_map(|node| -> Vec<String> {
        redis::cmd("KEYS").arg("*").query(&mut node.connection().unwrap()).unwrap()
    });
    names.collect()
}

// One of three primaries dies under load. Its keys may start over once. All other keys are
// unaffected, and no client has to be restarted.
#[test]
fn a_primary_of_a_cluster_dies() {
    const LIMIT: u64 = 200;
    crew().block_on(async {
        let mut cluster = Cluster::start(&node()).unwrap();
        let redis = patient(Redis::cluster(&cluster.urls()).unwrap());
        let limiter = limiter(&redis, "failover", LIMIT);
        let keys: Vec<String> = (0..9).map(|key| format!("key-{key}")).collect();
        let load = Load::start(&limiter, &keys, 4);
        for key in &keys {
            load.more(key, 5).await;
        }
        let names: BTreeMap<String, String> = names(&cluster)
            .into_iter()
            .map(|name| (name.rsplit_once(";t").unwrap().1.to_owned(), name))
            .collect();
        let primaries: BTreeMap<&str, usize> =
            keys.iter().map(|key| (&**key, cluster.primary_of(&names[key]).unwrap())).collect();
        let old = primaries["key-0"];
        let (lost, kept): (Vec<&str>, Vec<&str>) =
            primaries.keys().partition(|key| primaries[*key] == old);
        assert!(!kept.is_empty());

        cluster.nodes_mut()[old].kill().unwrap();
        let killed = Instant::now();
        let new = cluster.wait_for_failover(&names["key-0"], old).unwrap();
        let chosen = killed.elapsed();
        let took = load.more("key-0", 0).await;
        println!("a replica was primary {chosen:?} after the kill, {took:?} later it was found");
        assert_ne!(new, old);
        assert!(took <= RECOVERY_MAX, "{took:?}");
        // The failed node is still a seed, but no call waits for it.
        eventually("all is well", async || limiter.stats().breaker == BreakerState::Closed).await;
        for key in &keys {
            load.more(key, 100).await;
        }

        let seen = load.stop().await;
        let stats = limiter.stats();
        for key in kept {
            assert_eq!(seen[key].degraded(), 0, "{key}: {stats:?}");
            assert!(seen[key].admitted() <= LIMIT, "{key}: {:?}", seen[key]);
        }
        for key in lost {
            let admitted = seen[key].admitted();
            println!("{key}: {admitted} of {LIMIT} admitted, {} degraded", seen[key].degraded());
            assert!(admitted <= 2 * LIMIT, "{key}: {admitted}");
        }
        assert!(seen["key-0"].degraded() > 0 && stats.errors > 0, "{stats:?}");
    });
}

// A primary and its replica fail, so that no node serves their slots. Nodes that require full coverage
// then reject every key. Other nodes go on, and checks of the lost keys do not open their breakers.
#[test]
fn lost_slots_affect_the_others_only_if_full_coverage_is_required() {
    for insists in [false, true] {
        let node = if insists { RedisServer::builder() } else { node() };
        crew().block_on(async {
            let mut cluster = Cluster::start(&node).unwrap();
            let redis = patient(Redis::cluster(&cluster.urls()).unwrap());
            let limiter = limiter(&redis, "coverage", 1_000_000);
            let keys: Vec<String> = (0..9).map(|key| format!("key-{key}")).collect();
            for key in &keys {
                assert!(!limiter.check(key).await.is_degraded());
            }
            let place_of = |name: &String| cluster.primary_of(name).unwrap();
            let places: BTreeMap<String, usize> = names(&cluster)
                .into_iter()
                .map(|name| (name.rsplit_once(";t").unwrap().1.to_owned(), place_of(&name)))
                .collect();
            let lost = names(&cluster).into_iter().next().unwrap();
            let old = cluster.kill_primary_of(&lost).unwrap();
            cluster.wait_for_failover(&lost, old).unwrap();
            cluster.kill_primary_of(&lost).unwrap();

            let degraded = async |key: &String| limiter.check(key).await.is_degraded();
            let (gone, others): (Vec<_>, Vec<_>) = keys.iter().partition(|key| places[*key] == old);
            assert!(!gone.is_empty() && !others.is_empty());
            eventually("lost slots", async || degraded(gone[0]).await).await;
            if insists {
                eventually("all is lost", async || degraded(others[0]).await).await;
                return;
            }
            let witness = &cluster.nodes()[places[others[0]]];
            eventually("nodes that know", async || !info(witness).contains("slots_fail:0")).await;
            for _ in 0..20 {
                for key in &gone {
                    assert!(degraded(key).await, "{key} has no node");
                }
                for key in &others {
                    assert!(!degraded(key).await, "{key} has a node");
                }
            }
        });
    }
}

/// What a node says of its cluster.
fn info(node: &RedisServer) -> String {
    redis::cmd("CLUSTER").arg("INFO").query(&mut node.connection().unwrap()).unwrap()
}

/// Names of nodes, as they know themselves.
fn id_of(node: &RedisServer) -> String {
    redis::cmd("CLUSTER").arg("MYID").query(&mut node.connection().unwrap()).unwrap()
}

fn set_slot(node: &RedisServer, slot: u16, state: &[&str]) {
    let mut command = redis::cmd("CLUSTER");
    command.arg("SETSLOT").arg(slot).arg(state).exec(&mut node.connection().unwrap()).unwrap();
}

fn migrate(from: &RedisServer, to: &RedisServer, name: &str) {
    let mut command = redis::cmd("MIGRATE");
    command.arg("127.0.0.1").arg(to.port()).arg(name).arg(0).arg(5000);
    let answer: String = command.query(&mut from.connection().unwrap()).unwrap();
    assert_eq!(answer, "OK");
}

// While a slot moves, some of its keys are here and some are there, and new ones are nowhere. Each
// has to be asked for in the right place, or it starts over.
#[test]
fn a_slot_of_a_cluster_moves_under_load() {
    const POLICIES: usize = 6;
    crew().block_on(async {
        let cluster = Cluster::start(&node()).unwrap();
        let redis = patient(Redis::cluster(&cluster.urls()).unwrap());
        // All policies of one key are in one slot.
        let all: Vec<_> =
            (0..=POLICIES).map(|n| limiter(&redis, &format!("moving-{n}"), 1_000_000)).collect();
        let (late, limiters) = all.split_last().unwrap();
        let keys = ["k".to_owned()];
        let loads: Vec<_> = limiters.iter().map(|limiter| Load::start(limiter, &keys, 2)).collect();
        for load in &loads {
            load.more("k", 10).await;
        }
        let named: Vec<String> = names(&cluster).into_iter().collect();
        assert_eq!(named.len(), POLICIES);
        let from = cluster.primary_of(&named[0]).unwrap();
        let to = (0..3).map(|n| cluster.primary_of(&format!("{{{n}}}")).unwrap());
        let to = to.chain(0..6).find(|to| *to != from).unwrap();
        let nodes = cluster.nodes();
        let (from, to) = (&nodes[from], &nodes[to]);
        assert_eq!(to.info("replication", "role").unwrap(), "master");
        let mut keyslot = redis::cmd("CLUSTER");
        let mut connection = from.connection().unwrap();
        let slot: u16 = keyslot.arg("KEYSLOT").arg(&named[0]).query(&mut connection).unwrap();

        set_slot(to, slot, &["IMPORTING", &id_of(from)]);
        set_slot(from, slot, &["MIGRATING", &id_of(to)]);
        for (moved, name) in named.iter().enumerate() {
            for load in &loads {
                load.more("k", 10).await;
            }
            if moved == POLICIES / 2 {
                // A key that is new while its slot moves, and two of which one has moved.
                assert!(late.check("k").await.is_allowed());
                assert_eq!(late.usage("k").await.unwrap().units(0), 1);
                let ask = |n: usize| RedisAsk::new(&limiters[n], "k", Cost::ONE);
                let both = check_all(&[ask(0), ask(POLICIES - 1)]).await.unwrap();
                assert!(both.iter().all(|one| one.is_allowed() && !one.is_degraded()), "{both:?}");
            }
            migrate(from, to, name);
        }
        for node in [to, from] {
            set_slot(node, slot, &["NODE", &id_of(to)]);
        }
        for load in &loads {
            load.more("k", 50).await;
        }
        let stats = late.stats();
        for (number, (load, limiter)) in loads.into_iter().zip(limiters).enumerate() {
            let seen = load.stop().await;
            assert_eq!(seen["k"].degraded(), 0, "{stats:?}");
            let together = u64::from(number == 0 || number == POLICIES - 1);
            let used = limiter.usage("k").await.unwrap().units(0);
            assert_eq!(used, seen["k"].admitted() + together, "policy {number}");
        }
        println!("{} redirections in {} calls", stats.redirects, stats.calls);
        assert!(stats.redirects > 0);
        assert_eq!((stats.breaker_opened, stats.unknown), (0, 0));
        // The way is known by now.
        let before = late.stats().redirects;
        assert!(late.check("k").await.is_allowed());
        assert_eq!(late.stats().redirects, before);
    });
}

// The primary dies, Sentinels choose the replica, and the limiter goes there by itself.
#[test]
fn sentinels_choose_another_primary() {
    const LIMIT: u64 = 300;
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let redis = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name()).unwrap();
        let limiter = limiter(&patient(redis), "sentinel", LIMIT);
        let keys = ["k".to_owned()];
        let load = Load::start(&limiter, &keys, 4);
        load.more("k", 20).await;
        assert_eq!(load.seen["k"].degraded(), 0);

        let old = sentinel.kill_primary().unwrap();
        let killed = Instant::now();
        let new = sentinel.wait_for_failover(old).unwrap();
        let chosen = killed.elapsed();
        let took = load.more("k", 0).await;
        println!("a replica was primary {chosen:?} after the kill, {took:?} later it was found");
        assert_ne!(new, old);
        assert!(took <= RECOVERY_MAX, "{took:?}");
        eventually("all is well", async || limiter.stats().breaker == BreakerState::Closed).await;
        load.more("k", LIMIT * 2).await;
        let seen = load.stop().await;
        let admitted = seen["k"].admitted();
        println!("{admitted} of {LIMIT} admitted, {} degraded", seen["k"].degraded());
        assert!((LIMIT - limiter.stats().unknown..=2 * LIMIT).contains(&admitted), "{admitted}");
    });
}

// The old primary lives on as a replica: it still answers, and must not be asked. Meanwhile all
// connections to the Sentinels have gone deaf, so that new ones are needed to learn of it.
#[test]
fn a_primary_becomes_a_replica_while_sentinels_are_out_of_reach() {
    const SHORT: Duration = Duration::from_millis(500);
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let ports: Vec<u16> = sentinel.sentinels_mut().iter().map(RedisServer::port).collect();
        let proxies: Vec<Proxy> = ports.iter().map(|port| Proxy::to_port(*port).unwrap()).collect();
        let urls: Vec<&str> = proxies.iter().map(Proxy::url).collect();
        let redis = Redis::sentinel(&urls, sentinel.service_name()).unwrap();
        let redis = redis.deadline(SHORT).connect_deadline(SHORT).build().unwrap();
        let limiter = limiter(&redis, "demoted", 1_000_000);
        let keys = ["k".to_owned()];
        let load = Load::start(&limiter, &keys, 2);
        load.more("k", 20).await;

        for proxy in &proxies {
            proxy.fail_replies(ReplyFault::Deafen);
        }
        let old = sentinel.primary().unwrap();
        let mut failover = redis::cmd("SENTINEL");
        failover.arg("FAILOVER").arg(sentinel.service_name());
        failover.exec(&mut sentinel.sentinels_mut()[0].connection().unwrap()).unwrap();
        let new = sentinel.wait_for_failover(old).unwrap();
        // As the Sentinels will do in a while, but without closing its connections.
        let mut follow = redis::cmd("REPLICAOF");
        follow.arg("127.0.0.1").arg(sentinel.servers()[new].port());
        follow.exec(&mut sentinel.servers()[old].connection().unwrap()).unwrap();
        // Long enough for questions to the Sentinels, all of them in vain.
        let degraded = load.seen["k"].degraded();
        eventually("refusals", async || load.seen["k"].degraded() > degraded + 200).await;
        for proxy in &proxies {
            proxy.heal().unwrap();
        }
        let took = load.more("k", 20).await;
        println!("found {took:?} after the Sentinels could be reached");
        load.stop().await;
    });
}

// A replica keeps expired keys until its primary removes them. When it is promoted, it must expire them by
// itself, and keep what still counts.
#[test]
fn keys_expire_on_a_promoted_replica() {
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let redis = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name()).unwrap();
        let redis = patient(redis);
        let long = limiter(&redis, "long", 3);
        for _ in 0..3 {
            assert!(long.check("k").await.is_allowed());
        }
        let brief = limiter(&redis, "brief", 3);
        for number in 0..20 {
            assert!(brief.check(number.to_string()).await.is_allowed());
        }
        let old = sentinel.primary().unwrap();
        let mut connection = sentinel.servers()[old].connection().unwrap();
        let copies: i64 = redis::cmd("WAIT").arg(1).arg(10_000).query(&mut connection).unwrap();
        assert_eq!(copies, 1);
        // Every key has a TTL, on the replica too.
        for server in sentinel.servers() {
            let keys = common::keys(server);
            assert_eq!(keys.len(), 21);
            assert!(keys.iter().all(|(_, ttl)| *ttl > 0), "{keys:?}");
        }
        // The windows of most keys are about to pass.
        for (name, _) in common::keys(&sentinel.servers()[old]) {
            if name.contains("brief") {
                let mut expire = redis::cmd("PEXPIRE");
                expire.arg(name).arg(1000).exec(&mut connection).unwrap();
            }
        }
        let copies: i64 = redis::cmd("WAIT").arg(1).arg(10_000).query(&mut connection).unwrap();
        assert_eq!(copies, 1);
        assert_eq!(sentinel.kill_primary().unwrap(), old);
        let new = sentinel.wait_for_failover(old).unwrap();
        eventually("another primary", async || {
            let decision = long.check("k").await;
            assert!(!decision.is_allowed());
            !decision.is_degraded()
        })
        .await;
        let promoted = &sentinel.servers()[new];
        eventually("the keys to expire", async || common::keys(promoted).len() == 1).await;
        let (name, ttl) = common::keys(promoted).remove(0);
        assert!(name.contains("long") && ttl > 0, "{name} {ttl}");
    });
}

// Replicas are never called, so their failures have no effect.
#[test]
fn a_stopped_replica_changes_nothing() {
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let redis = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name()).unwrap();
        let limiter = limiter(&patient(redis), "replica", 1_000_000);
        let keys = ["k".to_owned()];
        let load = Load::start(&limiter, &keys, 2);
        load.more("k", 20).await;
        let replica = 1 - sentinel.primary().unwrap();
        sentinel.servers_mut()[replica].suspend().unwrap();
        load.more("k", 100).await;
        sentinel.servers_mut()[replica].kill().unwrap();
        load.more("k", 100).await;
        let seen = load.stop().await;
        assert_eq!(seen["k"].degraded(), 0);
        assert_eq!(limiter.usage("k").await.unwrap().units(0), seen["k"].admitted());
        assert_eq!(limiter.stats().errors, 0);
    });
}

/// Runs a planned failover under load. Returns the admitted units, and those of them that the new primary
/// does not have.
fn units_lost_in_a_planned_failover(server: &ServerBuilder, replicas: usize) -> (u64, u64) {
    crew().block_on(async {
        let mut sentinel = Sentinel::with_replicas(server, replicas).unwrap();
        let redis = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name()).unwrap();
        let limiter = limiter(&patient(redis), "planned", 1_000_000);
        let keys = ["k".to_owned()];
        let load = Load::start(&limiter, &keys, 4);
        load.more("k", 50).await;
        let old = sentinel.primary().unwrap();
        let mut failover = redis::cmd("SENTINEL");
        failover.arg("FAILOVER").arg(sentinel.service_name());
        failover.exec(&mut sentinel.sentinels_mut()[0].connection().unwrap()).unwrap();
        let new = sentinel.wait_for_failover(old).unwrap();
        // Some of them may be refused until a replica follows the new primary.
        let has_key = async || common::keys(&sentinel.servers()[new]).len() == 1;
        eventually("the key on the new primary", has_key).await;
        load.more("k", 200).await;
        let seen = load.stop().await;
        let admitted = seen["k"].admitted();
        (admitted, admitted.saturating_sub(limiter.usage("k").await.unwrap().units(0)))
    })
}

// Sentinels notice a promotion up to a second later, and the old primary serves for about ten.
#[test]
fn planned_failover_loses_few_units_with_and_without_min_replicas_to_write() {
    let open = RedisServer::builder();
    let closed = open.clone().config("min-replicas-to-write 1").config("min-replicas-max-lag 2");
    for (name, server, replicas) in [
        ("no setting, one replica", &open, 1),
        ("no setting, two replicas", &open, 2),
        ("min-replicas-to-write 1, one replica", &closed, 1),
    ] {
        let (admitted, lost) = units_lost_in_a_planned_failover(server, replicas);
        println!("{name}: {lost} of {admitted} units lost");
        // In a second of this load, more than 300 units are admitted.
        assert!(lost <= 150, "{name}: {lost} units");
    }
}

#[test]
fn a_primary_behind_sentinels_that_needs_no_replica_is_warned_of() {
    for server in [RedisServer::builder(), RedisServer::valkey()] {
        let sentinel = Sentinel::start(&server).unwrap();
        let redis = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name()).unwrap();
        let redis = patient(redis);
        let primary = &sentinel.servers()[0];
        let set = |value: usize| {
            let mut set = redis::cmd("CONFIG");
            set.arg("SET").arg("min-replicas-to-write").arg(value);
            set.exec(&mut primary.connection().unwrap()).unwrap();
        };
        crew().block_on(async {
            let warnings = redis.warnings().await.unwrap();
            assert_eq!(warnings.len(), 1, "{warnings:?}");
            assert_eq!(warnings[0].kind(), "no_min_replicas");
            let text = warnings[0].to_string();
            assert!(text.contains(&primary.port().to_string()), "{text}");
            set(1);
            assert_eq!(redis.warnings().await.unwrap(), []);
            // The replica is not enough, and that is no decision.
            set(2);
            let limiter = limiter(&redis, "refused", 10);
            let decision = limiter.check("k").await;
            assert_eq!(decision.degraded_reason(), Some(DegradedReason::NotWritable));
            assert!(!decision.is_allowed());
            set(1);
            assert!(limiter.check("k").await.is_allowed());
            assert_eq!(limiter.usage("k").await.unwrap().units(0), 1);
        });
    }
}

// The old primary of a planned failover goes on as a primary for some ten seconds. Processes that stay
// there meanwhile have a limit of their own.
#[test]
fn planned_failover_moves_every_process_while_the_old_primary_still_serves() {
    const PROCESSES: usize = 4;
    crew().block_on(async {
        let mut sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
        let process = |number: usize| {
            let builder = Redis::sentinel(&sentinel.sentinel_urls(), sentinel.service_name());
            limiter(&patient(builder.unwrap()), &format!("process-{number}"), 1_000_000)
        };
        let limiters: Vec<_> = (0..PROCESSES).map(process).collect();
        for limiter in &limiters {
            assert!(limiter.check("before").await.is_allowed());
        }
        let old = sentinel.primary().unwrap();
        let mut failover = redis::cmd("SENTINEL");
        failover.arg("FAILOVER").arg(sentinel.service_name());
        failover.exec(&mut sentinel.sentinels_mut()[0].connection().unwrap()).unwrap();
        let new = sentinel.wait_for_failover(old).unwrap();
        let chosen = Instant::now();
        let mut number = 0;
        for limiter in &limiters {
            let has_moved = async || {
                number += 1;
                let key = format!("after-{number}");
                assert!(!limiter.check(&key).await.is_degraded());
                let names = common::keys(&sentinel.servers()[new]);
                names.iter().any(|(name, _)| name.ends_with(&key))
            };
            eventually("checks on the new primary", has_moved).await;
        }
        println!(
            "{PROCESSES} processes on the new primary {:?} after the switch",
            chosen.elapsed()
        );
        let role = sentinel.servers()[old].info("replication", "role").unwrap();
        assert_eq!(role, "master", "the limiters moved only when the old primary was demoted");
        assert!(limiters.iter().all(|limiter| limiter.stats().degraded == 0));
    });
}
