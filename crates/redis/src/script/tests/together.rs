//! Several keys in one call. `tests/all_or_nothing.rs` compares them with memory.

use slidegate::Algorithm;

use super::super::{KeyOp, Op, ScriptLimits};
use super::{Caller, START, decided, limits, ms, retry_after};

fn used(caller: &mut Caller, key: &str, limits: &ScriptLimits) -> u64 {
    decided(&caller.run(START, key, limits, Op::Peek { cost: 1 }).unwrap()).2
}

// A key that was charged for what another denied would be half a request.
#[test]
pub(super) fn all_or_nothing() {
    let mut caller = Caller::start();
    let wide = limits(Algorithm::Log, &[(5, 60_000)]);
    let tight = limits(Algorithm::Log, &[(1, 60_000)]);
    let check = Op::Check { cost: 1 };
    let ops = [KeyOp { limits: &wide, op: check }, KeyOp { limits: &tight, op: check }];
    let first = caller.call(START, &["a", "b"], &ops).unwrap();
    assert!(first.keys.iter().all(|answer| decided(answer).0));
    let second = caller.call(START, &["a", "b"], &ops).unwrap();
    assert!(second.keys.iter().all(|answer| !decided(answer).0));
    // The one that was not in the way says so.
    assert_eq!(retry_after(&second.keys[0]), Some(ms(0)));
    assert_eq!(retry_after(&second.keys[1]), Some(ms(60_000)));
    assert_eq!((used(&mut caller, "a", &wide), used(&mut caller, "b", &tight)), (1, 1));
}

#[test]
pub(super) fn shadow_keys_never_block_other_keys() {
    let mut caller = Caller::start();
    let wide = limits(Algorithm::Gcra, &[(5, 60_000)]);
    let tight = limits(Algorithm::Fixed, &[(1, 60_000)]);
    let ops = [
        KeyOp { limits: &wide, op: Op::Check { cost: 1 } },
        KeyOp { limits: &tight, op: Op::Shadow { cost: 1 } },
    ];
    let allowed = |caller: &mut Caller| -> Vec<bool> {
        let reply = caller.call(START, &["a", "b"], &ops).unwrap();
        reply.keys.iter().map(|answer| decided(answer).0).collect()
    };
    assert_eq!(allowed(&mut caller), [true, true]);
    assert_eq!(allowed(&mut caller), [true, false]);
    assert_eq!((used(&mut caller, "a", &wide), used(&mut caller, "b", &tight)), (2, 1));
}

// The second write would undo the first.
#[test]
pub(super) fn rejects_a_key_that_is_named_twice() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Counter, &[(5, 60_000)]);
    let op = KeyOp { limits: &limits, op: Op::Check { cost: 1 } };
    let error = caller.call(START, &["a", "a"], &[op, op]).unwrap_err();
    assert!(error.is_store() && error.to_string().contains("named twice"), "{error}");
}

#[test]
pub(super) fn a_fault_in_one_key_leaves_the_others_as_they_were() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(5, 60_000)]);
    let ops = [KeyOp { limits: &limits, op: Op::Check { cost: 1 } }; 2];
    caller.set("b", b"\x02something");
    let error = caller.call(START, &["a", "b"], &ops).unwrap_err();
    assert!(error.to_string().contains("unknown version"), "{error}");
    let there: bool = caller.command("EXISTS a");
    assert!(!there);
    caller.command::<()>("DEL b");
    caller.command::<()>("RPUSH b x");
    let error = caller.call(START, &["a", "b"], &ops).unwrap_err();
    assert!(error.to_string().contains("not a string"), "{error}");
}
