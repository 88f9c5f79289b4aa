//! Independent checks in one call: the batch script, compared with the script for one.

use redis::Value;
use slidegate::Algorithm;
use slidegate_testkit::Random;

use super::super::{ALONE, Clock, KeyOp, Op, ScriptKind, ScriptLimits, batch_text, parse, time};
use super::coverage::prepare;
use super::{Caller, START, decided, limits, ms};

/// The algorithms with a fast path.
const ALGORITHMS: [Algorithm; 5] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Gcra,
    Algorithm::Fixed,
];

/// The replies of the batch script.
fn run_batch(
    caller: &mut Caller,
    now: core::time::Duration,
    keys: &[String],
    ops: &[KeyOp<'_>],
) -> Vec<Vec<u8>> {
    let script = batch_text(ScriptKind::of(ops), Clock::Given).unwrap();
    let script = prepare(&script);
    let mut call = script.prepare_invoke();
    for key in keys {
        call.key(key);
    }
    for op in ops {
        call.arg(op.argument(true));
    }
    let value = caller.invoke(call.arg(time(now))).unwrap();
    redis::from_redis_value(value).unwrap()
}

// A check in a batch must get the same reply as alone, and leave the same state.
#[test]
pub(super) fn batch_decides_like_single_calls() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let tight = limits(algorithm, &[(5, 2_000)]);
        let wide = limits(algorithm, &[(40, 60_000)]);
        let (mut random, mut now) = (Random::new(11), START);
        let (mut asked, mut alone) = (0_u32, 0_u32);
        for _ in 0..400 {
            // Sometimes longer than a gap of two bytes, or than any window.
            let most = random.pick(&[30, 300, 3_000, 20_000, 70_000]);
            now += ms(random.between(0, most));
            let users: Vec<usize> = (0..8).filter(|_| random.chance(50)).collect();
            let of = |user: usize| if user.is_multiple_of(2) { &tight } else { &wide };
            let costs: Vec<u64> = users.iter().map(|_| 1 + random.between(0, 2) / 2).collect();
            let ops: Vec<KeyOp<'_>> = users
                .iter()
                .zip(&costs)
                .map(|(user, cost)| KeyOp { limits: of(*user), op: Op::Check { cost: *cost } })
                .collect();
            let names: Vec<String> = users.iter().map(|user| format!("many:{user}")).collect();
            if ops.is_empty() {
                continue;
            }
            let replies = run_batch(&mut caller, now, &names, &ops);
            assert_eq!(replies.len(), ops.len());
            for (((user, op), name), reply) in users.iter().zip(&ops).zip(&names).zip(replies) {
                asked += 1;
                let decided = if reply == ALONE {
                    alone += 1;
                    caller.call(now, &[name], &[*op]).unwrap()
                } else {
                    parse(Value::BulkString(reply), &[*op]).unwrap()
                };
                let expected = caller.call(now, &[&format!("one:{user}")], &[*op]).unwrap();
                assert_eq!(decided, expected, "{algorithm:?}, {user} at {now:?}");
            }
            for user in users {
                let [many, one] = ["many", "one"]
                    .map(|set| -> Vec<u8> { caller.command(&format!("GET {set}:{user}")) });
                assert_eq!(many, one, "{algorithm:?}, {user} at {now:?}");
            }
        }
        assert!(alone * 5 < asked, "{algorithm:?}: {alone} of {asked} had to go alone");
    }
}

// Unlike in an all-or-nothing call, a key may occur several times: each check sees those before it.
#[test]
pub(super) fn repeated_key_in_a_batch_gets_its_limit() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        let limits: ScriptLimits = limits(algorithm, &[(10, 60_000)]);
        let ops = [KeyOp { limits: &limits, op: Op::Check { cost: 1 } }; 32];
        let names = vec!["k".to_owned(); 32];
        let mut admitted = 0;
        for reply in run_batch(&mut caller, START, &names, &ops) {
            let reply = parse(Value::BulkString(reply), &ops[..1]).unwrap();
            admitted += u32::from(decided(&reply.keys[0]).0);
        }
        assert_eq!(admitted, 10, "{algorithm:?}");
    }
}

// A damaged or foreign value must not fail the other checks.
#[test]
pub(super) fn unreadable_key_is_sent_alone() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        caller.command::<()>("RPUSH list x");
        caller.set("text", &[b'x'; 100]);
        let limits: ScriptLimits = limits(algorithm, &[(10, 60_000)]);
        let ops = [KeyOp { limits: &limits, op: Op::Check { cost: 1 } }; 4];
        let names = ["list", "a", "text", "b"].map(str::to_owned);
        let replies = run_batch(&mut caller, START, &names, &ops);
        let is_alone: Vec<bool> = replies.iter().map(|reply| reply == ALONE).collect();
        assert_eq!(is_alone, [true, false, true, false], "{algorithm:?}");
    }
}
