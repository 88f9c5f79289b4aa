//! Values that are damaged, cut short or somebody else's.

use proptest::prelude::*;
use redis::Value;
use slidegate::{Algorithm, ErrorKind};
use slidegate_testkit::Random;

use super::super::{Charge, KeyOp, Op, parse};
use super::{ALGORITHMS, Caller, START, charge, limits, ms};

/// One large charge, a few old ones, and one that is older than any window.
const CHARGES: [&[Charge]; 3] = [
    &[charge(1 << 52, 0)],
    &[charge(3, 900), charge(1, 500), charge(70_000, 1)],
    &[charge(1, 9001)],
];

/// Whatever can be asked of this algorithm.
fn operations(algorithm: Algorithm, random: &mut Random) -> Vec<Op<'static>> {
    let (tick, epoch) = (1_700_000_000_000 + random.between(0, 2000), 0);
    let mut all = vec![
        Op::Check { cost: 1 },
        Op::Check { cost: random.between(1, 50) },
        Op::Peek { cost: random.between(1, 50) },
        Op::Charge { charges: random.pick(&CHARGES) },
        Op::Refund { tick, units: random.between(1, 9), epoch },
        Op::Reset,
    ];
    if algorithm.supports_future_entries() {
        all.push(Op::Lease { units_min: 1, units_max: 5, ahead: ms(7) });
    }
    if algorithm.keeps_entries() {
        all.push(Op::History { from: 0 });
        all.push(Op::Forgive { units: random.between(1, 90) });
    }
    all
}

fn damage(value: &[u8], random: &mut Random) -> Vec<u8> {
    let mut value = value.to_vec();
    match random.between(0, 9) {
        0 => value.truncate(random.index(value.len() + 1)),
        1 => (0..random.between(1, 40)).for_each(|_| value.push(random.bits().to_le_bytes()[0])),
        2 => value = (0..random.between(0, 300)).map(|_| random.bits().to_le_bytes()[0]).collect(),
        3 => {
            // Ours by its first bytes, and nothing else.
            let head = value[..3].to_vec();
            value = (0..random.between(3, 300)).map(|_| random.bits().to_le_bytes()[0]).collect();
            value[..3].copy_from_slice(&head);
        }
        _ => {
            for _ in 0..random.between(1, 3) {
                // The header matters most.
                let most = if random.chance(70) { 90 } else { usize::MAX };
                let place = random.index(value.len().min(most));
                let any = random.bits().to_le_bytes()[0];
                value[place] = random.pick(&[0, 1, 0x7F, 0xBF, 0xFC, 0xFD, 0xFE, 0xFF, any, any]);
            }
        }
    }
    value
}

// A script that fails in the middle, or never ends, would take the whole server with it.
#[test]
fn damaged_values_are_an_error_of_ours_or_an_answer() {
    let mut caller = Caller::start();
    let mut random = Random::new(5);
    for round in 0..1200 {
        let algorithm = ALGORITHMS[round % ALGORITHMS.len()];
        let quotas: &[(u64, u64)] =
            if random.chance(60) { &[(40, 1000)] } else { &[(40, 1000), (60, 9000)] };
        let limits = limits(algorithm, quotas);
        caller.command::<()>("DEL k");
        let mut now = START;
        for _ in 0..random.between(1, 120) {
            now += ms(random.pick(&[0, 1, 30, 300]));
            let cost = random.pick(&[1, 1, 1, 1, 2, 70_000]);
            caller.run(now, "k", &limits, Op::Check { cost }).unwrap();
        }
        let value: Vec<u8> = caller.command("GET k");
        if value.is_empty() {
            continue;
        }
        let damaged = damage(&value, &mut random);
        let now = now + ms(random.between(0, 2000));
        for op in operations(algorithm, &mut random) {
            caller.set("k", &damaged);
            if let Err(error) = caller.run(now, "k", &limits, op) {
                let text = error.to_string();
                assert!(text.contains("SLIDEGATE"), "{algorithm:?}, round {round}, {op:?}: {text}");
                let after: Vec<u8> = caller.command("GET k");
                assert_eq!(after, damaged, "{algorithm:?}, round {round}, {op:?} changed it");
            }
        }
    }
}

#[test]
fn values_of_others_are_named() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(5, 1000)]);
        let mut said = |value: &[u8]| {
            caller.set("k", value);
            caller.run(START, "k", &limits, Op::Check { cost: 1 }).unwrap_err().to_string()
        };
        assert!(said(&[2; 60]).contains("unknown version"), "{algorithm:?}");
        assert!(said(&[1; 60]).contains("another algorithm"), "{algorithm:?}");
        assert!(said(b"\x01").contains("SLIDEGATE"), "{algorithm:?}");
        caller.command::<()>("DEL k");
        caller.command::<()>("ZADD k 1 x");
        let error = caller.run(START, "k", &limits, Op::Check { cost: 1 }).unwrap_err();
        assert!(error.to_string().contains("not a string"), "{algorithm:?}: {error}");
        caller.command::<()>("DEL k");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Nil),
        Just(Value::Okay),
        any::<i64>().prop_map(Value::Int),
        any::<bool>().prop_map(Value::Boolean),
        ".{0,20}".prop_map(Value::SimpleString),
        proptest::collection::vec(any::<u8>(), 0..120).prop_map(Value::BulkString),
        proptest::collection::vec(0..3u8, 0..120).prop_map(Value::BulkString),
    ];
    leaf.prop_recursive(2, 8, 4, |inner| {
        proptest::collection::vec(inner, 0..4).prop_map(Value::Array)
    })
}

proptest! {
    #[test]
    fn nonsense_for_a_reply_is_a_store_error(value in any_value(), several: bool) {
        let limits = limits(Algorithm::Log, &[(5, 1000), (9, 2000)]);
        let ops = [
            Op::Check { cost: 1 },
            Op::History { from: 0 },
            Op::Reset,
            Op::Refund { tick: 1, units: 1, epoch: 1 },
        ];
        let ops: Vec<_> = ops.iter().map(|op| KeyOp { limits: &limits, op: *op }).collect();
        for ops in if several { vec![&ops[..]] } else { ops.chunks(1).collect() } {
            if let Err(error) = parse(value.clone(), ops) {
                prop_assert_eq!(error.kind(), ErrorKind::Store);
            }
        }
    }
}
