//! Several keys in one decision: as in memory within one slot, never over and with exact units
//! given back across the slots of a cluster.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use common::{patient, policy, runtime};
use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{RedisFuture, Value};
use slidegate::{
    Algorithm, Ask, Cost, Decision, ErrorKind, FailureMode, Limiter, ManualClock, Mode, Policy,
    Quota, RetryAfter,
};
use slidegate_redis::{Redis, RedisAsk, RedisLimiter, check_all};
use slidegate_testkit::Random;
use slidegate_testkit::server::{Cluster, RedisServer, poll};
use tokio::task::JoinSet;

const HOUR_MS: u64 = 3_600_000;
const UNITS_MAX: u64 = Quota::LIMIT_MAX;

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

fn allowed(decisions: &[Decision]) -> bool {
    assert!(decisions.iter().all(|decision| !decision.is_degraded()));
    decisions.iter().all(Decision::is_allowed)
}

async fn used(limiter: &RedisLimiter, key: &str) -> u64 {
    limiter.usage(key).await.unwrap().units(0)
}

// All algorithms and both modes in one script, compared with the same limiters in memory. A script
// that peeks and takes differently, or charges one key for another's denial, soon counts differently.
#[test]
fn decides_as_memory_does() {
    let server = RedisServer::start().unwrap();
    let runtime = runtime();
    let mut outcomes = Outcomes::default();
    for seed in 0..24 {
        runtime.block_on(compare_with_memory(&server, seed, &mut outcomes));
    }
    let Outcomes { admitted, denied, shadow_denied } = outcomes;
    assert!(admitted > 300 && denied > 300 && shadow_denied > 50, "{outcomes:?}");
}

#[derive(Debug, Default)]
struct Outcomes {
    admitted: u64,
    denied: u64,
    shadow_denied: u64,
}

async fn compare_with_memory(server: &RedisServer, seed: u64, outcomes: &mut Outcomes) {
    let mut random = Random::new(seed);
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let prefix = format!("seed{seed}");
    let redis = patient(&server.url()).prefix(&prefix).test_clock(clock.clone()).build().unwrap();
    let policies = policies(&mut random, seed);
    let there: Vec<RedisLimiter> = policies
        .iter()
        .map(|policy| redis.limiter(policy.clone()).deny_cache(0).build().unwrap())
        .collect();
    let here: Vec<Limiter> = policies
        .iter()
        .map(|policy| Limiter::builder(policy.clone()).clock(clock.clone()).build().unwrap())
        .collect();
    let most = random.pick(&[5, 50, 200]);
    for step in 0..300 {
        clock.advance(Duration::from_micros(random.between(0, most * 1000)));
        let wanted = distinct(&mut random, here.len(), &["alice", "bob", "carol"]);
        let ours: Vec<RedisAsk<'_>> =
            wanted.iter().map(|(at, key, cost)| RedisAsk::new(&there[*at], *key, *cost)).collect();
        let theirs: Vec<Ask<'_>> =
            wanted.iter().map(|(at, key, cost)| Ask::new(&here[*at], *key, *cost)).collect();
        let ours = check_all(&ours).await.unwrap();
        let theirs = slidegate::check_all(&theirs).unwrap();
        for ((ours, theirs), (at, ..)) in ours.iter().zip(&theirs).zip(&wanted) {
            let name = policies[*at].name();
            let answer = |decision: &Decision| {
                let taken = decision.receipt().is_some();
                let quotas = decision.quotas().to_vec();
                (decision.is_allowed(), decision.is_shadow_denied(), taken, quotas)
            };
            let what = format!("seed {seed}, step {step}, {name}, {wanted:?}");
            assert_eq!(answer(ours), answer(theirs), "{what}");
            outcomes.shadow_denied += u64::from(ours.is_shadow_denied());
        }
        *(if allowed(&ours) { &mut outcomes.admitted } else { &mut outcomes.denied }) += 1;
    }
}

/// Policies of all algorithms for even seeds, and of one for odd seeds, which have a script of their
/// own. The first pair of seeds has the same quotas for all.
fn policies(random: &mut Random, seed: u64) -> Vec<Policy> {
    let algorithms = [
        ("log", Algorithm::Log),
        // Far from its cap: memory and Redis merge at other moments.
        ("capped", Algorithm::LogCapped { bytes_max: 4096 }),
        ("counter", Algorithm::Counter),
        ("segments", Algorithm::Segments { count: 4 }),
        ("gcra", Algorithm::Gcra),
        ("fixed", Algorithm::Fixed),
        ("shadow", Algorithm::Log),
    ];
    let single = random.pick(&algorithms).1;
    let policy = |(name, algorithm): (&str, Algorithm)| {
        let is_shadow = name == "shadow" || (seed > 1 && random.chance(20));
        let mode = if is_shadow { Mode::Shadow } else { Mode::Enforce };
        let quotas = if seed <= 1 {
            vec![(9, 3000), (20, 10_000)]
        } else {
            let count = random.between(1, 2);
            (0..count).map(|_| (random.between(2, 20), random.between(20, 2000))).collect()
        };
        let quota = |(limit, ms)| Quota::new(limit, Duration::from_millis(ms)).unwrap();
        let algorithm = if seed.is_multiple_of(2) { algorithm } else { single };
        let quotas = quotas.into_iter().map(quota);
        Policy::builder(name).quotas(quotas).algorithm(algorithm).mode(mode).build().unwrap()
    };
    algorithms.map(policy).to_vec()
}

/// One to four different keys of limiters.
fn distinct<'a>(
    random: &mut Random,
    limiters: usize,
    keys: &[&'a str],
) -> Vec<(usize, &'a str, Cost)> {
    let mut wanted: Vec<(usize, &str, Cost)> = Vec::new();
    for _ in 0..random.between(1, 4) {
        let (at, key) = (random.index(limiters), random.pick(keys));
        if !wanted.iter().any(|(other, named, _)| (*other, *named) == (at, key)) {
            wanted.push((at, key, cost(random.between(1, 4))));
        }
    }
    wanted
}

#[test]
fn a_key_that_is_named_twice_is_summed() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 5, HOUR_MS)).build().unwrap();
    runtime().block_on(async {
        let ask = |units| RedisAsk::new(&limiter, "alice", cost(units));
        assert!(!allowed(&check_all(&[ask(3), ask(3)]).await.unwrap()));
        assert_eq!(used(&limiter, "alice").await, 0);

        let decisions = check_all(&[ask(1), ask(3)]).await.unwrap();
        assert!(allowed(&decisions));
        assert_eq!(used(&limiter, "alice").await, 4);
        // Each ask's receipt is for its own units.
        let receipts: Vec<_> = decisions.into_iter().filter_map(Decision::into_receipt).collect();
        for (receipt, units) in receipts.into_iter().zip([1, 3]) {
            assert_eq!(limiter.refund("alice", receipt).await.unwrap(), units);
        }
        assert_eq!(used(&limiter, "alice").await, 0);
    });
}

// The sum is more than a script can count: cut down to what it can, it would fit.
#[test]
fn a_sum_beyond_all_numbers_is_denied() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("huge", UNITS_MAX, HOUR_MS)).build().unwrap();
    runtime().block_on(async {
        let ask = || RedisAsk::new(&limiter, "alice", cost(UNITS_MAX));
        let decisions = check_all(&[ask(), ask()]).await.unwrap();
        assert!(!allowed(&decisions), "twice the limit");
        assert_eq!(decisions[0].retry_after(), RetryAfter::Never, "no wait would help");
        assert!(allowed(&check_all(&[ask()]).await.unwrap()));
    });
}

// The script checks a key once, under one set of quotas; the other set would not be checked.
#[test]
fn a_key_has_one_set_of_quotas_in_a_decision() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let limiter = redis.limiter(policy("api", 1, HOUR_MS)).build().unwrap();
    let gold = limiter.tier(&[Quota::per_hour(100)]).unwrap();
    runtime().block_on(async {
        let asks = [
            RedisAsk::new(limiter.with(&gold).unwrap(), "alice", cost(5)),
            RedisAsk::new(&limiter, "alice", cost(1)),
        ];
        let error = check_all(&asks).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("different quotas"), "{error}");
        assert_eq!(used(&limiter, "alice").await, 0);
        assert!(allowed(&check_all(&asks[..1]).await.unwrap()));
        // The same tier twice is one set of quotas, also if another tier was made meanwhile.
        limiter.tier(&[Quota::per_day(1)]).unwrap();
        let ask = RedisAsk::new(limiter.with(&gold).unwrap(), "alice", cost(5));
        assert!(allowed(&check_all(&[ask.clone(), ask]).await.unwrap()));
    });
}

#[test]
fn asks_of_different_servers_and_too_many_are_refused() {
    let server = RedisServer::start().unwrap();
    let limiter = |redis: &Redis| redis.limiter(policy("api", 5, HOUR_MS)).build().unwrap();
    let handle = || patient(&server.url()).build().unwrap();
    let (one, other) = (limiter(&handle()), limiter(&handle()));
    runtime().block_on(async {
        let asks = [RedisAsk::new(&one, "a", Cost::ONE), RedisAsk::new(&other, "b", Cost::ONE)];
        let error = check_all(&asks).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting);
        assert!(error.to_string().contains("use one Redis for all"), "{error}");
        assert_eq!(used(&one, "a").await, 0);

        let names: Vec<String> = (0..65).map(|number| format!("many{number}")).collect();
        let asks: Vec<_> = names.iter().map(|name| RedisAsk::new(&one, name, Cost::ONE)).collect();
        let error = check_all(&asks).await.unwrap_err();
        assert_eq!(error.to_string(), "65 checks are out of range: use 64 or fewer");
        assert!(allowed(&check_all(&asks[..64]).await.unwrap()));
        assert!(check_all(&[]).await.unwrap().is_empty());
    });
}

// Redis is unavailable: the failure mode decides every ask. Denials cost nothing here either, or the
// denials of one key would use up the units of the other.
#[test]
fn without_a_server_a_denial_costs_nothing_either() {
    let redis = Redis::single("redis://127.0.0.1:1").unwrap().build().unwrap();
    let limiter = |name: &str, limit: u32| {
        let quota = Quota::per_hour(limit);
        let policy = Policy::builder(name).quota(quota).failure_mode(FailureMode::Local);
        redis.limiter(policy.build().unwrap()).build().unwrap()
    };
    let (wide, narrow) = (limiter("wide", 10), limiter("narrow", 1));
    runtime().block_on(async {
        let ask = || async {
            let asks = [
                RedisAsk::new(&wide, "alice", Cost::ONE),
                RedisAsk::new(&narrow, "alice", Cost::ONE),
            ];
            let decisions = check_all(&asks).await.unwrap();
            assert!(decisions.iter().all(Decision::is_degraded));
            decisions.iter().map(Decision::is_allowed).collect::<Vec<_>>()
        };
        assert_eq!(ask().await, [true, true]);
        for _ in 0..20 {
            assert_eq!(ask().await, [false, false]);
        }
        assert_eq!(wide.check("alice").await.remaining(), 8);
        let stats = wide.stats();
        assert_eq!((stats.decisions, stats.degraded), (22, 22));
    });
}

// Redis does not know what was admitted while it was away, until that is reported. Before and after the
// report, a check of several keys gets no unit more than a check of one.
#[test]
fn what_local_limiters_admitted_counts_after_an_outage() {
    let mut server = RedisServer::builder().append_only().start().unwrap();
    let redis = patient(&server.url()).breaker(1, Duration::from_millis(10)).build().unwrap();
    let quota = Quota::per_hour(3);
    let local = Policy::builder("local").quota(quota).failure_mode(FailureMode::Local);
    let local = redis.limiter(local.build().unwrap()).build().unwrap();
    let plain = redis.limiter(policy("plain", 100, HOUR_MS)).build().unwrap();
    let runtime = runtime();
    let ask = |key: &'static str| {
        let asks = [RedisAsk::new(&plain, "all", Cost::ONE), RedisAsk::new(&local, key, Cost::ONE)];
        runtime.block_on(check_all(&asks)).unwrap()
    };
    // What Redis allows is known here, so that an outage does not begin with nothing.
    assert!(allowed(&ask("warm")) && allowed(&ask("warm")));
    server.stop().unwrap();
    let passed = |key| (0..5).filter(|_| ask(key).iter().all(Decision::is_allowed)).count();
    assert_eq!((passed("warm"), passed("cold")), (1, 3));
    server.restart().unwrap();
    poll("Redis to answer again", || {
        let decision = runtime.block_on(plain.check("probe"));
        Ok((!decision.is_degraded()).then_some(()))
    })
    .unwrap();
    assert_eq!((passed("warm"), passed("cold")), (0, 0));
    assert!(allowed(&ask("new")));
    // The other key of a denied check was not charged.
    assert_eq!(runtime.block_on(used(&plain, "all")), 3);
    poll("reports", || Ok((local.stats().local_units_reported == 4).then_some(()))).unwrap();
    assert_eq!((passed("warm"), passed("cold")), (0, 0));
    assert_eq!(runtime.block_on(used(&local, "cold")), 3);
}

/// What tasks got out of the cluster.
#[derive(Default)]
struct Tally {
    admitted: BTreeMap<(usize, String), u64>,
    allowed: u64,
    denied: u64,
}

const TASKS: u64 = 8;
const ASKS: u64 = 3;
const LIMITS: [u64; 3] = [60, 25, 12];

// Parts are looked at and then taken one by one, while others take too: what was taken before one
// of them denied must go back to the unit, and nothing may be taken twice.
#[test]
fn across_the_slots_of_a_cluster_nothing_is_lost_and_nothing_is_over() {
    let cluster = Cluster::start(&RedisServer::builder()).unwrap();
    let long = Duration::from_secs(10);
    let builder = Redis::cluster(&cluster.urls()).unwrap().deadline(long).connect_deadline(long);
    let redis = builder.build().unwrap();
    let limiters: Arc<Vec<RedisLimiter>> = Arc::new(
        LIMITS
            .iter()
            .map(|limit| redis.limiter(policy(&format!("to{limit}"), *limit, HOUR_MS)))
            .map(|builder| builder.build().unwrap())
            .collect(),
    );
    runtime().block_on(async {
        let mut gave_back = 0;
        for round in 0..8 {
            let before = limiters[0].stats();
            let mut tasks = JoinSet::new();
            for task in 0..TASKS {
                tasks.spawn(ask_at_random(Arc::clone(&limiters), round, task));
            }
            let mut all = Tally::default();
            for tally in tasks.join_all().await {
                all.allowed += tally.allowed;
                all.denied += tally.denied;
                for (part, units) in tally.admitted {
                    *all.admitted.entry(part).or_default() += units;
                }
            }
            for ((at, key), units) in &all.admitted {
                assert!(*units <= LIMITS[*at], "{units} of {} for {key}", LIMITS[*at]);
            }
            let after = limiters[0].stats();
            assert_eq!((after.redirects, after.timeouts, after.errors), (0, 0, 0));
            // Looks at all parts, takes of all parts; and what is more than that was given back.
            let asked = 2 * ASKS * all.allowed + ASKS * all.denied;
            let sent = after.scripts_sent - before.scripts_sent;
            gave_back += (after.calls - before.calls).saturating_sub(asked + sent + 1);
            for key in keys_of(round) {
                for (at, limiter) in limiters.iter().enumerate() {
                    let units = all.admitted.get(&(at, key.clone())).copied().unwrap_or_default();
                    assert_eq!(used(limiter, &key).await, units, "round {round}, {at} {key}");
                }
            }
            assert!(all.allowed > 0 && all.denied > 0);
        }
        println!("{gave_back} calls beyond looking and taking");
        assert!(gave_back > 0, "no part was ever given back, so nothing was tried");
    });
}

fn keys_of(round: u64) -> [String; 3] {
    ["x", "y", "z"].map(|key| format!("{key}{round}"))
}

async fn ask_at_random(limiters: Arc<Vec<RedisLimiter>>, round: u64, task: u64) -> Tally {
    let mut random = Random::new(round * TASKS + task);
    let mut tally = Tally::default();
    let keys = keys_of(round);
    for _ in 0..30 {
        // Three keys, and of each the state of one policy.
        let parts: Vec<(usize, &String, u64)> = keys
            .iter()
            .map(|key| (random.index(limiters.len()), key, random.between(1, 3)))
            .collect();
        let asks: Vec<RedisAsk<'_>> = parts
            .iter()
            .map(|(at, key, units)| RedisAsk::new(&limiters[*at], *key, cost(*units)))
            .collect();
        let decisions = check_all(&asks).await.unwrap();
        if allowed(&decisions) {
            tally.allowed += 1;
            for (at, key, units) in parts {
                *tally.admitted.entry((at, key.clone())).or_default() += units;
            }
        } else {
            tally.denied += 1;
            assert!(decisions.iter().all(|decision| decision.receipt().is_none()));
        }
    }
    tally
}

/// A connection on which every reply takes a while. Counts the commands in flight.
#[derive(Clone)]
struct Slow {
    connection: MultiplexedConnection,
    delay: Duration,
    in_flight: Arc<AtomicUsize>,
    in_flight_most: Arc<AtomicUsize>,
}

impl ConnectionLike for Slow {
    fn req_packed_command<'a>(&'a mut self, command: &'a redis::Cmd) -> RedisFuture<'a, Value> {
        Box::pin(async move {
            let in_flight = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
            self.in_flight_most.fetch_max(in_flight, Ordering::Relaxed);
            tokio::time::sleep(self.delay).await;
            let reply = self.connection.req_packed_command(command).await;
            self.in_flight.fetch_sub(1, Ordering::Relaxed);
            reply
        })
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        commands: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        self.connection.req_packed_commands(commands, offset, count)
    }

    fn get_db(&self) -> i64 {
        0
    }
}

// 64 keys, one after the other, are 128 round trips.
#[test]
fn keys_of_many_slots_are_asked_at_once_under_one_deadline() {
    const KEYS: usize = 64;
    let server = RedisServer::start().unwrap();
    runtime().block_on(async {
        let client = server.client().unwrap();
        let slow = Slow {
            connection: client.get_multiplexed_async_connection().await.unwrap(),
            delay: Duration::from_millis(100),
            in_flight: Arc::default(),
            in_flight_most: Arc::default(),
        };
        let redis = Redis::from_cluster_connection(slow.clone()).deadline(Duration::from_secs(10));
        let redis = redis.build().unwrap();
        let limiter = redis.limiter(policy("many", 5, HOUR_MS)).build().unwrap();
        let keys: Vec<String> = (0..KEYS).map(|key| format!("key-{key}")).collect();
        let asks: Vec<_> = keys.iter().map(|key| RedisAsk::new(&limiter, key, Cost::ONE)).collect();
        let decisions = check_all(&asks).await.unwrap();
        assert!(allowed(&decisions) && !decisions.iter().any(Decision::is_degraded));
        assert_eq!(slow.in_flight_most.load(Ordering::Relaxed), KEYS);

        // Looking takes 100 ms, and so does taking.
        let redis = Redis::from_cluster_connection(slow).deadline(Duration::from_millis(150));
        let limiter = redis.build().unwrap().limiter(policy("many", 5, HOUR_MS)).build().unwrap();
        let asks: Vec<_> = keys.iter().map(|key| RedisAsk::new(&limiter, key, Cost::ONE)).collect();
        let decisions = check_all(&asks).await.unwrap();
        let is_late = |decision: &Decision| {
            decision.degraded_reason() == Some(slidegate::DegradedReason::Timeout)
        };
        assert!(decisions.iter().all(is_late), "{decisions:?}");
    });
}
