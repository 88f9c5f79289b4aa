//! Keys in the servers: every key expires, secrets are not stored, and no client chooses a slot.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

mod common;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use common::{patient, runtime};
use slidegate::{Algorithm, Cost, Decision, Policy, Quota, Receipt, Tier};
use slidegate_redis::{Redis, RedisAsk, RedisLimiter, check_all};
use slidegate_testkit::Random;
use slidegate_testkit::server::{Cluster, PATIENCE, RedisServer};

const ALGORITHMS: [(&str, Algorithm); 6] = [
    ("log", Algorithm::Log),
    ("capped", Algorithm::LogCapped { bytes_max: 64 }),
    ("counter", Algorithm::Counter),
    ("segments", Algorithm::Segments { count: 4 }),
    ("gcra", Algorithm::Gcra),
    ("fixed", Algorithm::Fixed),
];

/// Scripts with the test clock let a key outlive its content by an hour.
const SLACK: Duration = Duration::from_secs(3600);
const HOUR: Duration = Duration::from_secs(3600);

// A write without a TTL, or one that removes it, leaves a key forever; a TTL that is too short
// forgets units that still count.
#[test]
fn every_key_expires() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    let mut longest = BTreeMap::new();
    let mut subjects = Vec::new();
    for (name, algorithm) in ALGORITHMS {
        // Windows short enough to pass within the test, and windows much longer than the slack.
        for (kind, windows) in [
            ("short", [ms(3), ms(20)]),
            ("long", [10 * HOUR, 40 * HOUR]),
            ("both", [ms(2), 10 * HOUR]),
        ] {
            let policy = format!("{name}-{kind}");
            longest.insert(policy.clone(), windows[1] * 2);
            subjects.push(Subject::new(&redis, &policy, algorithm, windows));
        }
    }
    let mut random = Random::new(3);
    let runtime = runtime();
    runtime.block_on(async {
        for _ in 0..700 {
            for subject in &mut subjects {
                subject.step(&mut random).await;
            }
            ask_together(&subjects, &mut random).await;
        }
        for subject in &subjects {
            assert_eq!(subject.limiter.stats().degraded, 0);
        }
    });
    let keys = common::keys(&server);
    assert!(keys.len() > 30, "{keys:?}");
    for (key, ttl) in &keys {
        let policy = key.split_once("}:").unwrap().1.split(['@', ';']).next().unwrap();
        let most = 2 * longest[policy] + SLACK + Duration::from_secs(5);
        assert!(*ttl > 0, "{key} has no end");
        assert!(u128::from(ttl.unsigned_abs()) <= most.as_millis(), "{key} lives for {ttl} ms");
    }
    runtime.block_on(async {
        for subject in &subjects {
            subject.outlives_its_units(&keys).await;
        }
    });
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// A limiter on which any operation is called.
struct Subject {
    limiter: RedisLimiter,
    tier: Tier,
    receipts: Vec<(String, Receipt)>,
}

impl Subject {
    /// The tier has windows of twice the length.
    fn new(redis: &Redis, name: &str, algorithm: Algorithm, windows: [Duration; 2]) -> Self {
        let quotas = |times: u32| {
            let quota = |(limit, window)| Quota::new(limit, window * times).unwrap();
            [(30, windows[0]), (60, windows[1])].map(quota)
        };
        let policy = Policy::builder(name).quotas(quotas(1)).algorithm(algorithm);
        let limiter = redis.limiter(policy.build().unwrap()).build().unwrap();
        let tier = limiter.tier(&quotas(2)).unwrap();
        Self { limiter, tier, receipts: Vec::new() }
    }

    async fn step(&mut self, random: &mut Random) {
        let key = format!("key{}", random.between(0, 3));
        let units = Cost::new(random.between(1, 3)).unwrap();
        match random.between(0, 9) {
            0..=3 => {
                let decision = self.limiter.check_cost(&key, units).await;
                self.keep(key, decision);
            }
            4..=5 => {
                let decision = self.limiter.with(&self.tier).unwrap().check_cost(&key, units).await;
                self.keep(key, decision);
            }
            6 => {
                assert!(!self.limiter.peek_cost(&key, units).await.unwrap().is_degraded());
            }
            7 => {
                if let Some((key, receipt)) = self.receipt(random) {
                    self.limiter.refund(key, receipt).await.unwrap();
                }
            }
            8 => {
                if let Some((key, receipt)) = self.receipt(random) {
                    // Some debt too, except for GCRA, whose end it moves.
                    let gcra = self.limiter.policy().algorithm() == Algorithm::Gcra;
                    let actual = random.between(0, if gcra { 1 } else { 4 });
                    self.limiter.settle(key, receipt, actual).await.unwrap();
                }
            }
            _ if random.chance(30) => {
                self.limiter.reset(&key).await.unwrap();
            }
            _ => {
                self.limiter.usage(&key).await.unwrap();
            }
        }
    }

    fn keep(&mut self, key: String, decision: Decision) {
        self.receipts.extend(decision.into_receipt().map(|receipt| (key, receipt)));
    }

    fn receipt(&mut self, random: &mut Random) -> Option<(String, Receipt)> {
        let at = (!self.receipts.is_empty()).then(|| random.index(self.receipts.len()))?;
        Some(self.receipts.swap_remove(at))
    }

    /// If units still count, the key lives until none do.
    async fn outlives_its_units(&self, keys: &[(String, i64)]) {
        for number in 0..=3 {
            let key = format!("key{number}");
            let usage = self.limiter.usage(&key).await.unwrap();
            let name = self.limiter.policy().name();
            let ours = |(stored, _): &&(String, i64)| {
                stored.contains(&format!("}}:{name}")) && stored.ends_with(&format!(";t{key}"))
            };
            let ttl = keys.iter().find(ours).map_or(0, |(_, ttl)| ttl.unsigned_abs());
            let window = self.limiter.policy().quotas()[1].window();
            if usage.units(1) > 0 && window >= HOUR {
                // All units of this test are younger than a minute.
                let least = window.saturating_sub(Duration::from_secs(60));
                assert!(u128::from(ttl) >= least.as_millis(), "{name} {key}: {ttl} ms");
            }
        }
    }
}

// An algorithm cannot read the state of another. A policy with a new algorithm starts from zero;
// otherwise it would be degraded until the old keys have expired, two days with a daily limit.
#[test]
fn another_algorithm_starts_from_zero() {
    let server = RedisServer::start().unwrap();
    let redis = patient(&server.url()).build().unwrap();
    runtime().block_on(async {
        for (_, algorithm) in ALGORITHMS {
            let quota = Quota::per_day(2);
            let policy = Policy::builder("api").quota(quota).algorithm(algorithm).build().unwrap();
            let limiter = redis.limiter(policy).build().unwrap();
            let mut admitted = 0;
            for _ in 0..3 {
                let decision = limiter.check("alice").await;
                assert!(!decision.is_degraded(), "{algorithm:?}");
                admitted += u64::from(decision.is_allowed());
            }
            // Both kinds of log share their state, so these continue.
            let is_capped = matches!(algorithm, Algorithm::LogCapped { .. });
            assert_eq!(admitted, if is_capped { 0 } else { 2 }, "{algorithm:?}");
        }
    });
}

async fn ask_together(subjects: &[Subject], random: &mut Random) {
    let keys: Vec<String> = (0..4).map(|number| format!("key{number}")).collect();
    let asks: Vec<RedisAsk<'_>> = (0..3)
        .map(|_| {
            let subject = &subjects[random.index(subjects.len())];
            RedisAsk::new(&subject.limiter, &keys[random.index(keys.len())], Cost::ONE)
        })
        .collect();
    check_all(&asks).await.unwrap();
}

const TOKEN: &str = "sk-live-4f9c81aa27";
const KEY_SECRET: &[u8] = b"kept in the vault: 8231-5567";

// A token that is used as a key must not appear in the keyspace, the values, the traffic, or the
// `Debug` output; a key that is not secret proves that the search works.
#[test]
fn secrets_do_not_leave_the_process() {
    let server = RedisServer::start().unwrap();
    let monitor = Monitor::start(&server);
    let redis = patient(&server.url()).key_secret(KEY_SECRET).build().unwrap();
    let mut shown = format!("{redis:?}");
    runtime().block_on(async {
        for (name, algorithm) in ALGORITHMS {
            let policy = || {
                let quota = Quota::per_hour(2);
                Policy::builder(name).quota(quota).algorithm(algorithm).build().unwrap()
            };
            let secret = redis.limiter(policy()).secret_keys().build().unwrap();
            let open = redis.limiter(policy()).build().unwrap();
            assert!(open.check("no-secret").await.is_allowed());
            shown += &use_up(&secret).await;
        }
        shown += &damaged(&server, &redis).await;
    });
    let stored = everything(&server);
    let traffic = monitor.finish(&server);
    assert!(traffic.to_lowercase().contains("evalsha") && traffic.contains("no-secret"));
    assert!(stored.contains("no-secret"));
    assert!(traffic.contains(";s") && stored.contains(";s"), "nothing was hashed");
    for (place, text) in [("shown", &shown), ("stored", &stored), ("sent", &traffic)] {
        for form in forms(TOKEN.as_bytes()).iter().chain(&forms(KEY_SECRET)) {
            assert!(!text.contains(form), "{form} was {place}");
        }
    }
}

/// Calls every operation on the token, and returns all output.
async fn use_up(limiter: &RedisLimiter) -> String {
    let mut shown = String::new();
    let mut show = |thing: &dyn std::fmt::Debug| {
        let _ = write!(shown, "{thing:?} {thing:#?}");
    };
    let first = limiter.check(TOKEN).await;
    assert!(first.is_allowed() && !first.is_degraded());
    show(&first);
    show(&limiter.peek(TOKEN).await);
    let second = limiter.check(TOKEN).await;
    let denied = limiter.check(TOKEN).await;
    assert!(!denied.is_allowed());
    show(&denied);
    let ask = RedisAsk::new(limiter, TOKEN, Cost::ONE);
    show(&ask);
    show(&check_all(&[ask]).await);
    show(&limiter.usage(TOKEN).await);
    show(&limiter.history(TOKEN).await);
    show(&limiter.refund(TOKEN, second.into_receipt().unwrap()).await);
    show(&limiter.settle(TOKEN, first.into_receipt().unwrap(), 2).await);
    show(limiter);
    show(&limiter.stats());
    shown
}

/// Returns an error about the token's key.
async fn damaged(server: &RedisServer, redis: &Redis) -> String {
    let policy = Policy::new("damaged", Quota::per_hour(2)).unwrap();
    let limiter = redis.limiter(policy).secret_keys().build().unwrap();
    assert!(limiter.check(TOKEN).await.is_allowed());
    let names = common::keys(server);
    let (name, _) = names.iter().find(|(name, _)| name.contains(":damaged;")).unwrap();
    redis::cmd("SET").arg(name).arg("garbage").exec(&mut server.connection().unwrap()).unwrap();
    let decision = limiter.check(TOKEN).await;
    assert!(decision.is_degraded());
    let error = limiter.peek(TOKEN).await.unwrap_err();
    format!("{decision:?} {error} {error:?}")
}

/// Returns the notations of a secret.
fn forms(secret: &[u8]) -> Vec<String> {
    let hex = |upper: bool| {
        secret.iter().fold(String::new(), |text, byte| {
            text + &if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }
        })
    };
    let whole = String::from_utf8(secret.to_vec()).unwrap();
    // Its middle too: a part of a token is as bad as all of it.
    let middle = whole[4..12].to_owned();
    let listed = format!("{secret:?}").trim_matches(['[', ']']).to_owned();
    let lines = secret.iter().map(ToString::to_string).collect::<Vec<_>>().join(",\n");
    vec![whole, middle, hex(false), hex(true), listed, lines]
}

/// Returns names and values, as they are and as the server would save them.
fn everything(server: &RedisServer) -> String {
    let mut connection = server.connection().unwrap();
    let mut text = String::new();
    for (name, _) in common::keys(server) {
        for command in ["GET", "DUMP"] {
            let value: Vec<u8> = redis::cmd(command).arg(&name).query(&mut connection).unwrap();
            let _ = writeln!(text, "{name} {} {value:?}", String::from_utf8_lossy(&value));
        }
    }
    text
}

/// All commands that the server receives, from `MONITOR`.
struct Monitor(BufReader<TcpStream>);

impl Monitor {
    fn start(server: &RedisServer) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port())).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        assert!(line.starts_with("+OK"), "{line}");
        Self(reader)
    }

    fn finish(self, server: &RedisServer) -> String {
        let last = "that is all";
        redis::cmd("ECHO").arg(last).exec(&mut server.connection().unwrap()).unwrap();
        let lines = self.0.lines().map(Result::unwrap).take_while(|line| !line.contains(last));
        lines.collect::<Vec<_>>().join("\n")
    }
}

// If a client could choose its slot with braces in a key, it could put all keys on one node; if the
// slot differed from the server's, every call would be redirected.
#[test]
fn clients_cannot_choose_slots() {
    const KEYS: usize = 600;
    let cluster = Cluster::start(&RedisServer::builder()).unwrap();
    let long = Duration::from_secs(10);
    let builder = Redis::cluster(&cluster.urls()).unwrap().deadline(long).connect_deadline(long);
    let redis = builder.build().unwrap();
    let policy = Policy::new("api", Quota::per_hour(1)).unwrap();
    let limiter = redis.limiter(policy).build().unwrap();
    let mut random = Random::new(11);
    runtime().block_on(async {
        for number in 0..KEYS {
            let mut key = format!("{{same}}{number}").into_bytes();
            for _ in 0..random.between(0, 12) {
                key.push(random.pick(b"{}{}:;%*\0\xffax"));
            }
            let decision = limiter.check(&key).await;
            assert!(decision.is_allowed() && !decision.is_degraded(), "{key:?}");
        }
        let stats = limiter.stats();
        assert_eq!((stats.redirects, stats.errors, stats.degraded), (0, 0, 0));
    });
    let mut found = 0;
    for node in cluster.nodes() {
        let mut connection = node.connection().unwrap();
        if node.info("replication", "role").unwrap() != "master" {
            continue;
        }
        let names = common::keys(node);
        assert!(names.len() > KEYS / 6, "{} of {KEYS} keys on one of three nodes", names.len());
        found += names.len();
        for (name, _) in names {
            let (_, rest) = name.split_once('{').unwrap();
            let (tag, rest) = rest.split_once('}').unwrap();
            assert!(!rest.contains(['{', '}']), "{name}");
            let mut slot = |text: &str| -> u16 {
                redis::cmd("CLUSTER").arg("KEYSLOT").arg(text).query(&mut connection).unwrap()
            };
            assert_eq!(slot(&name), slot(tag), "{name}");
        }
    }
    assert_eq!(found, KEYS);
}
