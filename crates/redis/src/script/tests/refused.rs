//! Writes and reads that the server refuses, and operations that an algorithm does not have.

use slidegate::Algorithm;

use super::super::{KeyOp, Op, ScriptKind, arguments};
use super::{ALGORITHMS, Caller, START, charge, decided, limits, ms, refund_of};

// A script that had written a part of its state would leave an unreadable log.
#[test]
pub(super) fn full_server_is_reported_and_nothing_changes() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits = limits(algorithm, &[(1000, 60_000)]);
        for step in 0..90 {
            let now = START + ms(step * 3);
            let before: Option<Vec<u8>> = caller.command("GET k");
            caller.command::<()>("CONFIG SET maxmemory 1");
            let error = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap_err();
            assert!(error.to_string().contains("OOM"), "{algorithm:?}, step {step}: {error}");
            caller.command::<()>("CONFIG SET maxmemory 0");
            let after: Option<Vec<u8>> = caller.command("GET k");
            assert_eq!(after, before, "{algorithm:?}, step {step}");
            let reply = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
            assert!(decided(&reply).0, "{algorithm:?}, step {step}");
            if step % 9 == 8 {
                let before: Vec<u8> = caller.command("GET k");
                caller.command::<()>("CONFIG SET maxmemory 1");
                let error = caller.run(now, "k", &limits, refund_of(&reply)).unwrap_err();
                assert!(error.to_string().contains("OOM"), "{algorithm:?}, step {step}: {error}");
                caller.command::<()>("CONFIG SET maxmemory 0");
                let after: Vec<u8> = caller.command("GET k");
                assert_eq!(after, before, "{algorithm:?}, step {step}");
            }
        }
    }
}

// The key is in order: to call it damaged would send an operator the wrong way.
#[test]
pub(super) fn read_that_the_user_may_not_do_is_reported_as_the_server_does() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(5, 1000)]);
        caller.command::<()>("ACL SETUSER default -get -getrange");
        let reply = caller.run(START, "k", &limits, Op::Check { cost: 1 });
        caller.command::<()>("ACL SETUSER default +@all");
        let text = reply.unwrap_err().to_string();
        assert!(!text.contains("SLIDEGATE") && text.contains("can't run this"), "{text}");
    }
}

#[test]
pub(super) fn operations_that_an_algorithm_does_not_have_are_refused() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Counter, &[(5, 1000)]);
    let lease = Op::Lease { units_min: 1, units_max: 2, ahead: ms(5) };
    for (op, expected) in [(lease, "a lease"), (Op::History { from: 0 }, "its history")] {
        let error = caller.run(START, "k", &limits, op).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
    // Each script has one algorithm only.
    let ops = [KeyOp { limits: &limits, op: Op::Check { cost: 1 } }];
    let script = caller.scripts[ScriptKind::Gcra as usize].clone();
    let mut call = script.key("k");
    for argument in arguments(&ops, Some(START)) {
        // Without the mark for the fast path, which does not look.
        let mut argument = argument;
        argument[0] %= 64;
        call.arg(argument);
    }
    let error = caller.invoke(&call).unwrap_err();
    assert!(error.to_string().contains("an algorithm that this script has not"), "{error}");
    assert_eq!(caller.command::<Option<Vec<u8>>>("GET k"), None);
}

#[test]
pub(super) fn at_most_takes_what_fits() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits = limits(algorithm, &[(10, 60_000), (20, 90_000)]);
        let mut take = |units_max| {
            decided(&caller.run(START, "k", &limits, Op::AtMost { units_max }).unwrap())
        };
        assert_eq!(take(4), (true, 4, 4), "{algorithm:?}");
        assert_eq!(take(100), (true, 6, 10), "{algorithm:?}");
        assert_eq!(take(1), (false, 0, 10), "{algorithm:?}");
        let debt = [charge(1 << 52, 0)];
        let _ = caller.run(START, "k", &limits, Op::Charge { charges: &debt }).unwrap();
    }
}
