//! Blocked keys: the state that a block sets aside must come back whole.

use super::super::{Charge, KeyReply, Op};
use super::{ALGORITHMS, Caller, START, charge, limits, ms};

#[test]
pub(super) fn blocks_deny_and_keep_the_state() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        for quotas in [&[(5, 1000)][..], &[(5, 1000), (9, 9000)]] {
            let limits = limits(algorithm, quotas);
            caller.flush();
            let mut run = |now, op: Op<'_>| caller.run(START + ms(now), "k", &limits, op).unwrap();
            let block = |time| Op::Block { time: ms(time) };
            let used = |reply: &KeyReply| match reply {
                KeyReply::Decision { used, blocked, allowed, .. } => (used[0], *blocked, *allowed),
                other => panic!("{other:?} is no decision"),
            };
            let (peek, check) = (Op::Peek { cost: 1 }, Op::Check { cost: 1 });
            // Without a state, and with nothing to end.
            assert_eq!(run(0, Op::Unblock), KeyReply::Found(false));
            assert_eq!(run(0, block(100)), KeyReply::Found(false));
            assert_eq!(used(&run(50, check)), (0, true, false), "{algorithm:?}");
            assert_eq!(run(50, Op::Unblock), KeyReply::Found(true));
            // With a state, blocked again, charged meanwhile.
            assert_eq!(used(&run(60, check)), (1, false, true), "{algorithm:?}");
            assert_eq!(run(60, block(5)), KeyReply::Found(false));
            assert_eq!(run(60, block(100)), KeyReply::Found(true));
            let charges: [Charge; 1] = [charge(1, 0)];
            assert_eq!(run(60, Op::Charge { charges: &charges }), KeyReply::Units(1));
            assert_eq!(used(&run(60, peek)), (2, true, false), "{algorithm:?}");
            assert_eq!(used(&run(60, Op::AtMost { units_max: 2 })), (2, true, false));
            assert_eq!(run(60, Op::Unblock), KeyReply::Found(true));
            assert_eq!(used(&run(60, check)), (3, false, true), "{algorithm:?}");
            // A block that ends by itself, and then a check.
            assert_eq!(run(60, block(10)), KeyReply::Found(false));
            assert!(used(&run(69, peek)).1, "{algorithm:?}");
            assert!(!used(&run(71, peek)).1, "{algorithm:?}");
            assert!(used(&run(71, check)).2, "{algorithm:?}");
            assert_eq!(run(71, Op::Unblock), KeyReply::Found(false));
            // One that ends while the key is empty.
            assert_eq!(run(71, block(10)), KeyReply::Found(false));
            assert_eq!(run(72, Op::Reset), KeyReply::Found(true));
            assert_eq!(used(&run(72, peek)), (0, false, true), "{algorithm:?}");
            let keys: Vec<String> = caller.command("KEYS *");
            for key in keys {
                // -1 is a key without a TTL, -2 one that has just expired.
                assert_ne!(caller.command::<i64>(&format!("PTTL {key}")), -1, "{key}");
            }
        }
    }
}

#[test]
pub(super) fn reset_of_an_unreadable_state_ends_the_block() {
    let mut caller = Caller::start();
    let limits = limits(ALGORITHMS[0], &[(5, 1000)]);
    caller.run(START, "k", &limits, Op::Check { cost: 1 }).unwrap();
    caller.run(START, "k", &limits, Op::Block { time: ms(100) }).unwrap();
    caller.set("k;b", b"damaged");
    assert!(caller.run(START, "k", &limits, Op::Peek { cost: 1 }).is_err());
    let found = caller.run(START, "k", &limits, Op::Reset).unwrap();
    assert_eq!(found, KeyReply::Found(true));
}
