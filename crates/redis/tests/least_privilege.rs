//! A user with only the rights that docs/redis-acl.md names: all that we do works, each right is
//! needed, and nothing else can be done.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::subject::RedisSubject;
use common::{eventually, patient, runtime};
use slidegate::{Algorithm, Cost, Error, Policy, Quota};
use slidegate_redis::{Redis, RedisAsk, RedisBuilder, check_all};
use slidegate_testkit::server::{Cluster, RedisServer, Sentinel};
use slidegate_testkit::{load_all, run};

const PAGE: &str = include_str!("../../../docs/redis-acl.md");
const PASSWORD: &str = "word";

/// The line of the page for a user.
fn line(user: &str) -> String {
    let start = format!("user {user} ");
    let line = PAGE.lines().find(|line| line.starts_with(&start)).unwrap();
    line.replace("PASSWORD", PASSWORD)
}

/// The commands that the page has added for something, from its table.
fn added(what: &str) -> String {
    let row = PAGE.lines().find(|line| line.starts_with(&format!("| {what}"))).unwrap();
    row.split('`').nth(row.matches('`').count() - 1).unwrap().replace(r"\|", "|")
}

/// The commands that a line allows.
fn rights(line: &str) -> Vec<&str> {
    line.split(' ').filter(|word| word.starts_with('+')).collect()
}

/// Both users of the page and no other.
fn users() -> String {
    format!("user default off\n{}\n{}\n", line("slidegate"), line("slidegate-upkeep"))
}

/// Servers whose default user stays, to look around.
fn servers() -> [RedisServer; 2] {
    let users = format!("{}\n{}\n", line("slidegate"), line("slidegate-upkeep"));
    [RedisServer::builder(), RedisServer::valkey()]
        .map(|server| server.users(users.as_str()).start().unwrap())
}

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 4 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// Everything a limiter can be asked for, of every algorithm; the first error if there is one.
async fn decide(redis: &Redis, round: &str) -> Result<(), Error> {
    let degraded = || Error::new(slidegate::ErrorKind::Store, "degraded");
    for (number, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let quota = Quota::per_hour(50);
        let name = format!("p{number}");
        let policy = Policy::builder(&name).quota(quota).algorithm(algorithm).build()?;
        let limiter = redis.limiter(policy).deny_cache(0).build()?;
        let gold = limiter.tier(&[Quota::per_hour(100)])?;
        // Often enough that the log is written whole, in part, and with a code behind the head.
        for _ in 0..40 {
            let decision = limiter.check(round).await;
            let tiered = limiter.with(&gold).unwrap().check("other").await;
            if decision.is_degraded() || tiered.is_degraded() {
                return Err(limiter.peek(round).await.err().unwrap_or_else(degraded));
            }
        }
        let receipt = |decision: slidegate::Decision| decision.into_receipt().unwrap();
        limiter.refund(round, receipt(limiter.check(round).await)).await?;
        limiter.settle(round, receipt(limiter.reserve(round, 1).await), 3).await?;
        limiter.charge(round, 1).await?;
        limiter.forgive(round, 1).await?;
        let waited = limiter.wait_timeout(round, Cost::ONE, Duration::from_secs(1)).await?;
        limiter.block("blocked", Duration::from_secs(60)).await?;
        limiter.unblock("blocked").await?;
        if waited.is_degraded() || limiter.check_at_most(round, Cost::ONE).await.is_degraded() {
            return Err(degraded());
        }
        limiter.usage(round).await?;
        if number < 2 {
            limiter.history(round).await?;
        }
        let asks = [("a", 1), ("b", 2)].map(|(key, cost)| (key, Cost::new(cost).unwrap()));
        let asks = asks.map(|(key, cost)| RedisAsk::new(&limiter, key, cost));
        if check_all(&asks).await?.iter().any(slidegate::Decision::is_degraded) {
            return Err(degraded());
        }
        limiter.reset(round).await?;
    }
    decide_briefly(redis).await
}

/// In windows so short that every check finds the one before expired, and the key's end to be moved.
async fn decide_briefly(redis: &Redis) -> Result<(), Error> {
    let tick = Duration::from_micros(100);
    let policy = Policy::new("brief", Quota::new(5, tick)?)?;
    let limiter = redis.limiter(policy).tick(tick).deny_cache(0).build()?;
    for _ in 0..40 {
        if limiter.check("brief").await.is_degraded() {
            return Err(Error::new(slidegate::ErrorKind::Store, "degraded"));
        }
    }
    Ok(())
}

async fn keep_up(redis: &Redis) -> Result<(), Error> {
    redis.usage().await?;
    redis.warnings().await?;
    redis.sample(200).await?;
    redis.sweep(&["p0", "p1"], 1_000_000, |_| {}).await.map(|_| ())
}

fn quick(builder: RedisBuilder) -> Redis {
    // A breaker that stays closed: every call shall get the server's own word.
    builder.breaker(1_000_000, Duration::from_millis(1)).build().unwrap()
}

#[test]
fn the_conformance_traces_pass() {
    let server = RedisServer::builder().users(users()).start().unwrap();
    let runtime = Arc::new(runtime());
    let connect = || patient(&server.url_as("slidegate", PASSWORD));
    for trace in load_all().unwrap() {
        let mut subject = RedisSubject::new(&runtime, &connect, &trace).unwrap();
        run(&trace, &mut subject).unwrap_or_else(|mismatch| panic!("{mismatch}"));
    }
    let redis = quick(connect());
    runtime.block_on(async { decide(&redis, "all").await.unwrap() });
}

fn persist_all(admin: &mut redis::Connection) {
    let script =
        "for _, key in ipairs(redis.call('KEYS', 'sg:*')) do redis.call('PERSIST', key) end";
    redis::cmd("EVAL").arg(script).arg(0).exec(admin).unwrap();
}

// A right that is not needed is one too many.
#[test]
fn every_right_is_needed_and_without_it_nothing_panics() {
    servers().iter().for_each(try_every_right);
}

fn try_every_right(server: &RedisServer) {
    let mut admin = server.connection().unwrap();
    let runtime = runtime();
    let decider = quick(patient(&server.url_as("slidegate", PASSWORD)));
    let keeper = quick(patient(&server.url_as("slidegate-upkeep", PASSWORD)));
    runtime.block_on(async {
        decide(&decider, "before").await.unwrap();
        keep_up(&keeper).await.unwrap();
        for user in ["slidegate", "slidegate-upkeep"] {
            let line = line(user);
            for right in rights(&line) {
                set_user(&mut admin, user, &right.replace('+', "-"));
                // Without its scripts, so that their text is sent again.
                redis::cmd("SCRIPT").arg("FLUSH").exec(&mut admin).unwrap();
                let result = match user {
                    "slidegate" => decide(&decider, right).await,
                    _ => {
                        // Keys to repair.
                        decide(&decider, right).await.unwrap();
                        persist_all(&mut admin);
                        keep_up(&keeper).await
                    }
                };
                let error = result.expect_err(right).to_string();
                // A check returns no error; where peeks are still permitted, it is only `degraded`.
                assert!(is_refusal(&error) || error == "degraded", "{right}: {error}");
                set_user(&mut admin, user, right);
                // A user that may not send scripts is not sent one for a moment.
                eventually("the right", async || decide(&decider, "again").await.is_ok()).await;
            }
        }
        decide(&decider, "after").await.unwrap();
        keep_up(&keeper).await.unwrap();
    });
}

/// As Redis says it, in and out of scripts, and as Valkey does.
fn is_refusal(error: &str) -> bool {
    let words = ["NOPERM", "ermission", "can't run", "can't access", "not allowed"];
    words.iter().any(|word| error.contains(word))
}

fn set_user(admin: &mut redis::Connection, user: &str, rule: &str) {
    redis::cmd("ACL").arg("SETUSER").arg(user).arg(rule).exec(admin).unwrap();
}

#[test]
fn nothing_else_can_be_done() {
    servers().iter().for_each(try_all_else);
}

fn try_all_else(server: &RedisServer) {
    let mut admin = server.connection().unwrap();
    redis::cmd("SET").arg("theirs").arg("data").exec(&mut admin).unwrap();
    for user in ["slidegate", "slidegate-upkeep"] {
        let client = server.client_at(&server.url_as(user, PASSWORD)).unwrap();
        let mut connection = client.get_connection().unwrap();
        let commands = [
            "GET theirs",
            "SET theirs x",
            "UNLINK theirs",
            "DEL sg:x",
            "FLUSHALL",
            "FLUSHDB",
            "CONFIG GET *",
            "KEYS *",
            "ACL LIST",
            "MONITOR",
            "SHUTDOWN",
            "SAVE",
            "SCRIPT FLUSH",
            "CLIENT LIST",
            "SLOWLOG GET",
            "PUBLISH news x",
            "RENAME sg:a sg:b",
            "EVAL {redis.call('GET','theirs')} 0",
            "EVAL {redis.call('GET',KEYS[1])} 1 theirs",
            "EVAL {redis.call('FLUSHALL')} 0",
            "EVAL {redis.call('CONFIG','GET','*')} 0",
            "FUNCTION LIST",
            "MODULE LIST",
            "REPLICAOF NO ONE",
            "PSYNC ? -1",
            "MIGRATE a 1 b 0 1",
        ];
        for text in commands {
            let mut words = text.split(' ').map(|word| word.trim_matches(['{', '}']));
            let mut command = redis::cmd(words.next().unwrap());
            words.for_each(|word| {
                command.arg(word);
            });
            let error = command.exec(&mut connection).expect_err(text).to_string();
            assert!(is_refusal(&error), "{user}, {text}: {error}");
        }
    }
    let data: String = redis::cmd("GET").arg("theirs").query(&mut admin).unwrap();
    assert_eq!(data, "data");
}

#[test]
fn databases_and_resp3_need_what_the_page_says() {
    servers().iter().for_each(try_databases_and_resp3);
}

fn try_databases_and_resp3(server: &RedisServer) {
    let mut admin = server.connection().unwrap();
    let url = server.url_as("slidegate", PASSWORD);
    runtime().block_on(async {
        decide(&quick(patient(&format!("{url}?protocol=resp3"))), "RESP3").await.unwrap();
        let numbered = format!("{url}4");
        decide(&quick(patient(&numbered)), "database").await.unwrap_err();
        set_user(&mut admin, "slidegate", &added("a database"));
        decide(&quick(patient(&numbered)), "database").await.unwrap();
    });
}

#[test]
fn a_cluster_needs_what_the_page_says() {
    let users = [line("slidegate"), line("slidegate-upkeep")];
    let users = users.map(|line| format!("{line} {}\n", added("a cluster"))).concat();
    let cluster = Cluster::start(&RedisServer::builder().users(users)).unwrap();
    let connect = |user: &str| {
        let urls: Vec<String> =
            cluster.nodes().iter().map(|node| node.url_as(user, PASSWORD)).collect();
        let long = Duration::from_secs(10);
        quick(Redis::cluster(&urls).unwrap().deadline(long).connect_deadline(long))
    };
    runtime().block_on(async {
        for round in ["x", "y", "z", "u", "v"] {
            decide(&connect("slidegate"), round).await.unwrap();
        }
        keep_up(&connect("slidegate-upkeep")).await.unwrap();
        for node in cluster.nodes() {
            // Said before a call for a slot that is on the move.
            let client = node.client_at(&node.url_as("slidegate", PASSWORD)).unwrap();
            redis::cmd("ASKING").exec(&mut client.get_connection().unwrap()).unwrap();
            set_user(&mut node.connection().unwrap(), "slidegate", "-cluster|slots");
        }
        decide(&connect("slidegate"), "x").await.unwrap_err();
    });
}

#[test]
fn sentinels_need_what_the_page_says() {
    let right = PAGE.split('`').find(|word| word.starts_with("+sentinel")).unwrap();
    let sentinel = Sentinel::start(&RedisServer::builder()).unwrap();
    let mut urls = Vec::new();
    let mut sentinel = sentinel;
    let service = sentinel.service_name();
    for node in sentinel.sentinels_mut() {
        let mut admin = node.connection().unwrap();
        for rule in ["on", ">word", "-@all", right] {
            set_user(&mut admin, "asker", rule);
        }
        urls.push(node.url_as("asker", PASSWORD));
    }
    let long = Duration::from_secs(10);
    let builder = Redis::sentinel(&urls, service).unwrap().deadline(long).connect_deadline(long);
    let redis = quick(builder);
    runtime().block_on(async { decide(&redis, "x").await.unwrap() });
}
