//! What is written, when, and how long it stays.

use redis::Value;
use slidegate::Algorithm;

use super::super::{
    Clock, KeyOp, KeyReply, MAIN, Op, ScriptKind, ScriptLimits, arguments, parse, text,
};
use super::{ALGORITHMS, Caller, START, decided, limits, ms, refund_of};

impl Caller {
    /// Commands so far that changed something.
    fn changes(&mut self) -> u64 {
        let info: String = self.command("INFO persistence");
        let line = info.lines().find_map(|line| line.strip_prefix("rdb_changes_since_last_save:"));
        line.unwrap().trim().parse().unwrap()
    }

    /// Runs a script on the server's own clock.
    fn run_now(&mut self, kind: ScriptKind, key: &str, limits: &ScriptLimits, op: Op) -> KeyReply {
        let ops = [KeyOp::new(limits, op).unwrap()];
        let script = redis::Script::new(&text(kind, Clock::Server, MAIN));
        let [argument] = arguments(&ops, None).try_into().unwrap();
        let value: Value = script.key(key).arg(argument).invoke(&mut self.connection).unwrap();
        let mut reply = parse(value, &ops).unwrap();
        assert!(reply.server_time > START);
        reply.keys.remove(0)
    }
}

// A flood of denied requests must neither load replicas nor prolong anything.
#[test]
fn a_denied_check_or_a_peek_writes_nothing() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(3, 1000), (5, 60_000)]);
        caller.flush();
        for _ in 0..3 {
            let answer = caller.run(START, "k", &limits, Op::Check { cost: 1 }).unwrap();
            assert!(decided(&answer).0, "{algorithm:?}");
        }
        let before = caller.changes();
        for at in [0, 1, 500, 999] {
            let now = START + ms(at);
            let denied = caller.run(now, "k", &limits, Op::Check { cost: 4 }).unwrap();
            assert!(!decided(&denied).0, "{algorithm:?} at {at}");
            caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            caller.run(now, "new", &limits, Op::Peek { cost: 1 }).unwrap();
            caller.run(now, "new", &limits, Op::Check { cost: 6 }).unwrap();
            caller.run(now, "new", &limits, Op::Reset).unwrap();
        }
        assert_eq!(caller.changes(), before, "{algorithm:?}");
    }
}

// Without it a key would stay for ever, or go while its units still count.
#[test]
fn every_write_leaves_a_ttl_that_outlives_what_counts() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits = limits(algorithm, &[(3, 2000), (1000, 60_000)]);
        let mut run = |op| {
            let reply = caller.run_now(limits.kind(), "k", &limits, op);
            (reply, caller.command::<i64>("PTTL k"))
        };
        let least = if algorithm == Algorithm::Gcra { 1000 } else { 60_000 };
        let (taken, ttl) = run(Op::Check { cost: 3 });
        assert!(ttl > least, "{algorithm:?} after a check: {ttl}");
        for op in [Op::Charge { cost: 5 }, refund_of(&taken)] {
            let (_, ttl) = run(op);
            assert!(ttl > least, "{algorithm:?} after {op:?}: {ttl}");
        }
        let (found, ttl) = run(Op::Reset);
        assert_eq!(found, KeyReply::Found(true), "{algorithm:?}");
        assert!((1..=150_000).contains(&ttl), "{algorithm:?} after a reset: {ttl}");
        assert_eq!(run(Op::Reset).0, KeyReply::Found(false), "{algorithm:?}");
    }
}

/// The log renews its TTL only now and then; it must never run low.
#[test]
fn the_ttl_of_a_log_never_falls_below_a_window() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(1_000_000, 60_000)]);
    let slack = 3_600_000;
    let mut expires = 0;
    for step in 0..2000_u64 {
        let now = step * 97;
        caller.run(START + ms(now), "k", &limits, Op::Check { cost: 1 }).unwrap();
        // The server's clock stands nearly still, the given one does not: what PEXPIRE was last told
        // counts from then on.
        let ttl = u64::try_from(caller.command::<i64>("PTTL k")).unwrap();
        let renewed = ttl > 120_000 + slack - 5000;
        expires = if step == 0 || (renewed && expires < now + 60_000 + 100) {
            now + 120_000
        } else {
            expires
        };
        assert!(expires >= now + 60_000, "step {step}: lives until {expires}, it is {now}");
    }
    let info: String = caller.command("INFO commandstats");
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
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(100_000, 60_000)]);
    for step in 0..5000_u64 {
        caller.run(START + ms(step * 60), "k", &limits, Op::Check { cost: 1 }).unwrap();
    }
    let bytes: u64 = caller.command("MEMORY USAGE k");
    // A thousand entries of a byte.
    assert!((1000..1600).contains(&bytes), "{bytes} bytes");
    // One that was idle is small again.
    caller.run(START + ms(10_000_000), "k", &limits, Op::Check { cost: 1 }).unwrap();
    let bytes: u64 = caller.command("MEMORY USAGE k");
    assert!(bytes < 250, "{bytes} bytes");
}

// A receipt from before a reset, or from before the key was lost, must not give back the units of
// those who came after.
#[test]
fn receipts_are_void_after_a_reset_and_after_data_loss() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(10, 60_000)]);
        for lose in [false, true] {
            caller.flush();
            let taken = caller.run(START, "k", &limits, Op::Check { cost: 3 }).unwrap();
            if lose {
                caller.flush();
            } else {
                caller.run(START, "k", &limits, Op::Reset).unwrap();
            }
            let now = START + ms(1);
            caller.run(now, "k", &limits, Op::Check { cost: 4 }).unwrap();
            let back = caller.run(now, "k", &limits, refund_of(&taken)).unwrap();
            assert_eq!(back, KeyReply::Units(0), "{algorithm:?}");
            let peek = caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
            assert_eq!(decided(&peek).2, 4, "{algorithm:?}");
        }
    }
}

// Every kind must compile and run on the server's own clock too.
#[test]
fn all_scripts_run_on_the_servers_clock() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(2, 60_000)]);
        for kind in [limits.kind(), ScriptKind::Mixed] {
            caller.flush();
            let mut allowed =
                |_| decided(&caller.run_now(kind, "k", &limits, Op::Check { cost: 1 })).0;
            assert_eq!([0, 1, 2].map(&mut allowed), [true, true, false], "{algorithm:?} {kind:?}");
        }
    }
}
