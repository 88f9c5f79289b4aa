//! The scripts on the server's own clock.

use slidegate::Algorithm;

use super::super::{
    Charge, Clock, KeyOp, KeyReply, MAIN, Op, ScriptKind, ScriptLimits, arguments, parse, text,
};
use super::coverage::prepare;
use super::{ALGORITHMS, Caller, START, charge, decided, limits, refund_of};

/// Five units of debt.
const DEBT: [Charge; 1] = [charge(5, 0)];

impl Caller {
    /// Runs a script on the server's own clock.
    fn run_now(
        &mut self,
        kind: ScriptKind,
        key: &str,
        limits: &ScriptLimits,
        op: Op<'_>,
    ) -> KeyReply {
        let ops = [KeyOp { limits, op }];
        let script = prepare(&text(kind, Clock::Server, MAIN));
        let [argument] = arguments(&ops, None).try_into().unwrap();
        let value = self.invoke(script.key(key).arg(argument)).unwrap();
        let mut reply = parse(value, &ops).unwrap();
        assert!(reply.server_time > START);
        reply.keys.remove(0)
    }
}

// Without it a key would stay for ever, or go while its units still count.
#[test]
pub(super) fn every_write_leaves_a_ttl_that_outlives_what_counts() {
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
        for op in [Op::Charge { charges: &DEBT }, refund_of(&taken)] {
            let (_, ttl) = run(op);
            assert!(ttl > least, "{algorithm:?} after {op:?}: {ttl}");
        }
        let (found, ttl) = run(Op::Reset);
        assert_eq!(found, KeyReply::Found(true), "{algorithm:?}");
        assert!((1..=150_000).contains(&ttl), "{algorithm:?} after a reset: {ttl}");
        assert_eq!(run(Op::Reset).0, KeyReply::Found(false), "{algorithm:?}");
    }
}

// Every kind must compile and run on the server's own clock too.
#[test]
pub(super) fn all_scripts_run_on_the_servers_clock() {
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
