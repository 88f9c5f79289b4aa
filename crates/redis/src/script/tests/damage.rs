//! Values that are damaged, cut short or written by another program.

use core::time::Duration;

use proptest::prelude::*;
use redis::Value;
use slidegate::{Algorithm, ErrorKind};
use slidegate_testkit::Random;

use super::super::{Charge, KeyOp, KeyReply, Op, parse};
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
pub(super) fn damaged_values_return_a_slidegate_error_or_a_reply() {
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

/// Logs of several lengths: without stored codes, with some, with long gaps, and with an index.
fn logs(caller: &mut Caller) -> Vec<(Vec<u8>, Duration)> {
    let limits = limits(Algorithm::Log, &[(1000, 600_000)]);
    let shapes = [(5, 1), (40, 1), (30, 300), (25, 16_000), (170, 1), (560, 1)];
    let logs = shapes.map(|(entries, gap)| {
        caller.command::<()>("DEL k");
        let mut now = START;
        for entry in 0..entries {
            now += ms(gap);
            let cost = if entry % 7 == 3 { 2 } else { 1 };
            let _ = caller.run(now, "k", &limits, Op::Check { cost }).unwrap();
        }
        (caller.command("GET k"), now)
    });
    logs.into()
}

/// Whatever can be asked of a log, under one quota and under two.
fn operations_on_log(epoch: u16, now: Duration) -> Vec<(Vec<(u64, u64)>, Op<'static>)> {
    let (first, last) = (1_700_000_000_000, u64::try_from(now.as_millis()).unwrap());
    let refund = |tick, units| Op::Refund { tick, units, epoch };
    let ops = [
        Op::Check { cost: 1 },
        Op::Peek { cost: 990 },
        Op::History { from: 0 },
        Op::Forgive { units: 1 },
        Op::Forgive { units: 300 },
        refund(first + 1, 1),
        refund(u64::midpoint(first, last), 1),
        refund(last - 1, 1),
        refund(first + 5, 600),
    ];
    let wide = (1000, 600_000);
    let quotas = [vec![wide], vec![(1000, 100), wide], vec![(1000, 700_000), wide]];
    ops.iter().flat_map(|op| quotas.clone().map(|quotas| (quotas, *op))).collect()
}

/// An operation on a damaged log replies or reports it, and changes nothing then.
fn try_on(caller: &mut Caller, damaged: &[u8], now: Duration, quotas: &[(u64, u64)], op: Op<'_>) {
    caller.set("k", damaged);
    if let Err(error) = caller.run(now, "k", &limits(Algorithm::Log, quotas), op) {
        let text = error.to_string();
        assert!(text.contains("SLIDEGATE"), "{op:?}, {damaged:?}: {text}");
        let after: Vec<u8> = caller.command("GET k");
        assert_eq!(after, damaged, "{op:?}");
    }
}

// The same as above, at every byte.
#[test]
pub(super) fn log_damaged_at_any_byte_returns_a_slidegate_error_or_a_reply() {
    let mut caller = Caller::start();
    let mut step = 0;
    for (value, now) in logs(&mut caller) {
        let ops = operations_on_log(u16::from_le_bytes([value[24], value[25]]), now);
        let codes_end = usize::from(value[29]) + 256 * usize::from(value[30]);
        for place in 0..value.len() {
            // The tail, the first code and the index get more operations.
            let is_short = (51..64).contains(&place) || place >= codes_end;
            for bytes in [&[0x7F][..], &[0xFC], &[0xFE], &[0xFF], &[0; 5]] {
                let mut damaged = value.clone();
                let end = value.len().min(place + bytes.len());
                damaged[place..end].copy_from_slice(&bytes[..end - place]);
                step += 1;
                let some = ops.iter().cycle().skip(step % ops.len());
                for (quotas, op) in some.take(if is_short { 13 } else { 1 }) {
                    try_on(&mut caller, &damaged, now, quotas, *op);
                }
            }
        }
    }
}

// There are spare bytes behind the last code, which are no part of it.
#[test]
pub(super) fn code_that_runs_past_the_last_one_is_damaged() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(1000, 600_000)]);
    let mut faults = 0;
    for step in 0..60 {
        let now = START + ms(step);
        let _ = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
        let value: Vec<u8> = caller.command("GET k");
        let stop = usize::from(value[26]) + 256 * usize::from(value[27]);
        let mut damaged = value.clone();
        damaged[stop - 1] = 0xFC;
        caller.set("k", &damaged);
        if let Err(error) = caller.run(now, "k", &limits, Op::History { from: 0 }) {
            assert!(error.to_string().contains("damaged code"), "{error}");
            faults += 1;
        }
        caller.set("k", &value);
    }
    assert!(faults > 9, "{faults}");
}

// A gap that leads past the last entry would become a negative one when entries are merged.
#[test]
pub(super) fn ticks_out_of_order_are_damaged() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::LogCapped { bytes_max: 64 }, &[(1000, 600_000)]);
    for step in 0..40 {
        let _ = caller.run(START + ms(step), "k", &limits, Op::Check { cost: 1 }).unwrap();
    }
    let mut damaged: Vec<u8> = caller.command("GET k");
    damaged[63] = 0xBF;
    caller.set("k", &damaged);
    let mut replies =
        (40..80).map(|step| caller.run(START + ms(step), "k", &limits, Op::Check { cost: 1 }));
    let error = replies.find_map(Result::err).unwrap();
    assert!(error.to_string().contains("out of order"), "{error}");
}

#[test]
pub(super) fn log_cut_anywhere_returns_a_slidegate_error_or_a_reply() {
    let mut caller = Caller::start();
    for (value, now) in logs(&mut caller) {
        let ops = operations_on_log(u16::from_le_bytes([value[24], value[25]]), now);
        for length in (1..value.len()).step_by(9) {
            for (quotas, op) in &ops {
                try_on(&mut caller, &value[..length], now, quotas, *op);
            }
        }
    }
    // The rings of two quotas, one behind the other.
    let segments = limits(Algorithm::Segments { count: 60 }, &[(40, 1000), (60, 9000)]);
    caller.command::<()>("DEL k");
    let _ = caller.run(START, "k", &segments, Op::Check { cost: 1 }).unwrap();
    let value: Vec<u8> = caller.command("GET k");
    for length in 1..value.len() {
        caller.set("k", &value[..length]);
        let error = caller.run(START, "k", &segments, Op::Check { cost: 1 }).unwrap_err();
        assert!(error.to_string().contains("SLIDEGATE"), "{length}: {error}");
    }
}

#[test]
pub(super) fn forgiving_a_part_of_the_first_entry_needs_the_whole_index() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(1000, 600_000)]);
    for step in 0..400 {
        let cost = if step == 0 { 2 } else { 1 };
        let _ = caller.run(START + ms(step), "k", &limits, Op::Check { cost }).unwrap();
    }
    let value: Vec<u8> = caller.command("GET k");
    let codes_end = usize::from(value[29]) + 256 * usize::from(value[30]);
    caller.set("k", &value[..codes_end + 5]);
    let forgive = Op::Forgive { units: 1 };
    let error = caller.run(START + ms(400), "k", &limits, forgive).unwrap_err();
    assert!(error.to_string().contains("cut short"), "{error}");
    caller.set("k", &value);
    assert_eq!(caller.given(START + ms(400), &limits, forgive), 1);
}

// A sum in the index that is too small must not become negative.
#[test]
pub(super) fn refund_from_a_block_with_too_small_a_sum_returns_the_units() {
    let mut caller = Caller::start();
    let limits = limits(Algorithm::Log, &[(1000, 600_000)]);
    let mut receipt = None;
    for step in 0..400 {
        let reply = caller.run(START + ms(step), "k", &limits, Op::Check { cost: 1 }).unwrap();
        if let (200, KeyReply::Decision { tick, epoch, .. }) = (step, reply) {
            receipt = Some(Op::Refund { tick, units: 1, epoch });
        }
    }
    let mut value: Vec<u8> = caller.command("GET k");
    let index = usize::from(value[29]) + 256 * usize::from(value[30]);
    for record in value[index..].chunks_mut(13) {
        record[8..].fill(0);
    }
    caller.set("k", &value);
    assert_eq!(caller.given(START + ms(400), &limits, receipt.unwrap()), 1);
    let after: Vec<u8> = caller.command("GET k");
    assert_eq!(after[index + 8..index + 13], [0; 5]);
}

#[test]
pub(super) fn values_of_others_are_named() {
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
