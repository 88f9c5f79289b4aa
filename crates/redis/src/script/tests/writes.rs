//! What is written, when, and how long it stays.

use redis::Connection;
use slidegate::Algorithm;

use super::super::reply::Reply;
use super::super::{Answer, Ask, Clock, Kind, Op, arguments, compose, parse, script};
use super::{ALGORITHMS, Caller, START, Server, decided, limits, ms};

/// Commands so far that changed something.
fn changes(connection: &mut Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("persistence").query(connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
    line.unwrap().trim().parse().unwrap()
}

fn pttl(connection: &mut Connection, key: &str) -> i64 {
    redis::cmd("PTTL").arg(key).query(connection).unwrap()
}

// A flood of denied requests must neither load replicas nor prolong anything.
#[test]
fn a_denied_check_or_a_peek_writes_nothing() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(3, 1000), (5, 60_000)]);
        redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
        for _ in 0..3 {
            let answer = caller.ask(START, "k", &limits, Op::Check { cost: 1 }).unwrap();
            assert!(decided(&answer).0, "{algorithm:?}");
        }
        let before = changes(caller.connection());
        for at in [0, 1, 500, 999] {
            let now = START + ms(at);
            let denied = caller.ask(now, "k", &limits, Op::Check { cost: 4 }).unwrap();
            assert!(!decided(&denied).0, "{algorithm:?} at {at}");
            caller.ask(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            caller.ask(now, "new", &limits, Op::Peek { cost: 1 }).unwrap();
            caller.ask(now, "new", &limits, Op::Check { cost: 6 }).unwrap();
            caller.ask(now, "new", &limits, Op::Reset).unwrap();
        }
        assert_eq!(changes(caller.connection()), before, "{algorithm:?}");
    }
}

// Without it a key would stay for ever, or go while its units still count.
#[test]
fn every_write_leaves_a_ttl_that_outlives_what_counts() {
    let server = Server::start();
    let mut connection = server.connect();
    for (number, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let limits = limits(algorithm, &[(3, 2000), (1000, 60_000)]);
        let script = redis::Script::new(compose(limits.kind(), Clock::Server).text());
        let key = format!("k{number}");
        let mut call = |op| -> Reply {
            let asks = [Ask::new(&limits, op).unwrap()];
            let [argument] = arguments(&asks, None).try_into().unwrap();
            let value = script.key(&key).arg(argument).invoke(&mut connection).unwrap();
            parse(value, &asks).unwrap()
        };
        let Answer::Decided { tick, epoch, units, .. } =
            call(Op::Check { cost: 3 }).answers[0].clone()
        else {
            panic!("no decision");
        };
        let least = if algorithm == Algorithm::Gcra { 1000 } else { 60_000 };
        assert!(pttl(&mut server.connect(), &key) > least, "{algorithm:?} after a check");
        call(Op::Charge { cost: 5 });
        assert!(pttl(&mut server.connect(), &key) > least, "{algorithm:?} after a charge");
        call(Op::Refund { tick, units, epoch });
        assert!(pttl(&mut server.connect(), &key) > least, "{algorithm:?} after a refund");
        assert_eq!(call(Op::Reset).answers, [Answer::Found(true)], "{algorithm:?}");
        let ttl = pttl(&mut server.connect(), &key);
        assert!((1..=150_000).contains(&ttl), "{algorithm:?} after a reset: {ttl}");
        assert_eq!(call(Op::Reset).answers, [Answer::Found(false)], "{algorithm:?}");
    }
}

/// The log renews its TTL only now and then; it must never run low.
#[test]
fn the_ttl_of_a_log_never_falls_below_a_window() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let limits = limits(Algorithm::Log, &[(1_000_000, 60_000)]);
    let slack = 3_600_000;
    let mut expires = 0;
    for step in 0..2000_u64 {
        let now = step * 97;
        caller.ask(START + ms(now), "k", &limits, Op::Check { cost: 1 }).unwrap();
        // The server's clock stands nearly still, the given one does not: what PEXPIRE was last told
        // counts from then on.
        let ttl = u64::try_from(pttl(caller.connection(), "k")).unwrap();
        let renewed = ttl > 120_000 + slack - 5000;
        expires = if step == 0 || (renewed && expires < now + 60_000 + 100) {
            now + 120_000
        } else {
            expires
        };
        assert!(expires >= now + 60_000, "step {step}: lives until {expires}, it is {now}");
    }
    let info: String = redis::cmd("INFO").arg("commandstats").query(caller.connection()).unwrap();
    let calls = |name: &str| {
        let line = info.lines().find(|line| line.starts_with(name)).unwrap_or("calls=0,");
        let count = line.split("calls=").nth(1).and_then(|rest| rest.split(',').next());
        count.unwrap().parse::<u64>().unwrap()
    };
    assert!(
        calls("cmdstat_pexpire:") < 10,
        "the TTL was renewed {} times",
        calls("cmdstat_pexpire:")
    );
    assert!(calls("cmdstat_setrange:") >= 1900, "a check is written in place");
}

// Growing a string in place doubles what Redis allocates for it.
#[test]
fn a_long_log_takes_little_more_than_its_codes() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    let limits = limits(Algorithm::Log, &[(100_000, 60_000)]);
    for step in 0..5000_u64 {
        caller.ask(START + ms(step * 60), "k", &limits, Op::Check { cost: 1 }).unwrap();
    }
    let bytes: u64 = redis::cmd("MEMORY").arg("USAGE").arg("k").query(caller.connection()).unwrap();
    // A thousand entries of a byte.
    assert!((1000..1600).contains(&bytes), "{bytes} bytes");
    // One that was idle is small again.
    caller.ask(START + ms(10_000_000), "k", &limits, Op::Check { cost: 1 }).unwrap();
    let bytes: u64 = redis::cmd("MEMORY").arg("USAGE").arg("k").query(caller.connection()).unwrap();
    assert!(bytes < 250, "{bytes} bytes");
}

// A receipt from before a reset, or from before the key was lost, must not give back the units of
// those who came after.
#[test]
fn receipts_are_void_after_a_reset_and_after_data_loss() {
    let server = Server::start();
    let mut caller = Caller::new(server.connect());
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(10, 60_000)]);
        for lose in [false, true] {
            redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
            let taken = caller.ask(START, "k", &limits, Op::Check { cost: 3 }).unwrap();
            let Answer::Decided { tick, epoch, units, .. } = taken else { panic!("no decision") };
            if lose {
                redis::cmd("FLUSHALL").exec(caller.connection()).unwrap();
            } else {
                caller.ask(START, "k", &limits, Op::Reset).unwrap();
            }
            let now = START + ms(1);
            caller.ask(now, "k", &limits, Op::Check { cost: 4 }).unwrap();
            let back = caller.ask(now, "k", &limits, Op::Refund { tick, units, epoch }).unwrap();
            assert_eq!(back, Answer::Units(0), "{algorithm:?}");
            let peek = caller.ask(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            assert_eq!(decided(&peek).2, 4, "{algorithm:?}");
        }
    }
}

// Every kind must compile and run on the server's own clock too.
#[test]
fn all_scripts_run_on_the_servers_clock() {
    let server = Server::start();
    let mut connection = server.connect();
    for (number, algorithm) in ALGORITHMS.into_iter().enumerate() {
        let limits = limits(algorithm, &[(2, 60_000)]);
        for kind in [limits.kind(), Kind::Mixed] {
            let script = redis::Script::new(script(kind).text());
            let key = format!("{kind:?}{number}");
            let asks = [Ask::new(&limits, Op::Check { cost: 1 }).unwrap()];
            let [argument] = arguments(&asks, None).try_into().unwrap();
            let times: Vec<bool> = (0..3)
                .map(|_| {
                    let value = script.key(&key).arg(argument.clone()).invoke(&mut connection);
                    let reply = parse(value.unwrap(), &asks).unwrap();
                    assert!(reply.server_time > START, "{algorithm:?}");
                    decided(&reply.answers[0]).0
                })
                .collect();
            assert_eq!(times, [true, true, false], "{algorithm:?} {kind:?}");
        }
    }
}
