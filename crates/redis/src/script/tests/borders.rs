//! Times at the border of a window or a block, and refunds of units that have gone.

use core::time::Duration;

use slidegate::Algorithm;
use slidegate_testkit::Random;

use super::super::{KeyReply, Op};
use super::refund::Model;
use super::{Caller, START, decided, limits, ms, refund_of, retry_after};

// Within a tick, `now` is rounded down and the date of a unit up: into the next window.
#[test]
pub(super) fn unit_of_the_last_tick_belongs_to_the_next_window() {
    let mut caller = Caller::start();
    for algorithm in [Algorithm::Counter, Algorithm::Fixed, Algorithm::Segments { count: 6 }] {
        caller.flush();
        let limits = limits(algorithm, &[(1, 1000)]);
        let late = START + Duration::from_micros(999_500);
        assert!(decided(&caller.run(late, "k", &limits, Op::Check { cost: 1 }).unwrap()).0);
        let next = START + ms(1999);
        assert!(!decided(&caller.run(next, "k", &limits, Op::Check { cost: 1 }).unwrap()).0);
    }
}

#[test]
pub(super) fn refunds_of_units_that_have_gone_give_nothing() {
    let mut caller = Caller::start();
    let peek = Op::Peek { cost: 1 };
    // In the previous window they count, and are given back there.
    let counter = limits(Algorithm::Counter, &[(10, 1000)]);
    let taken = caller.run(START, "c", &counter, Op::Check { cost: 8 }).unwrap();
    let _ = caller.run(START + ms(1100), "c", &counter, Op::Check { cost: 1 }).unwrap();
    let later = START + ms(1200);
    assert_eq!(caller.run(later, "c", &counter, refund_of(&taken)).unwrap(), KeyReply::Units(8));
    assert_eq!(decided(&caller.run(later, "c", &counter, peek).unwrap()).2, 1);
    let later = START + ms(2200);
    let _ = caller.run(later, "c", &counter, Op::Check { cost: 1 }).unwrap();
    assert_eq!(caller.run(later, "c", &counter, refund_of(&taken)).unwrap(), KeyReply::Units(0));

    let segments = limits(Algorithm::Segments { count: 6 }, &[(10, 600)]);
    let taken = caller.run(START, "s", &segments, Op::Check { cost: 3 }).unwrap();
    for at in [300, 750] {
        let _ = caller.run(START + ms(at), "s", &segments, Op::Check { cost: 1 }).unwrap();
    }
    let given = caller.run(START + ms(750), "s", &segments, refund_of(&taken)).unwrap();
    assert_eq!(given, KeyReply::Units(0));

    // A unit of the bucket is refilled within 100 ms, whatever others take meanwhile.
    let gcra = limits(Algorithm::Gcra, &[(10, 1000)]);
    let taken = caller.run(START, "g", &gcra, Op::Check { cost: 1 }).unwrap();
    let _ = caller.run(START + ms(50), "g", &gcra, Op::Check { cost: 5 }).unwrap();
    let given = caller.run(START + ms(300), "g", &gcra, refund_of(&taken)).unwrap();
    assert_eq!(given, KeyReply::Units(0));
    // No more than there is.
    let taken = caller.run(START, "h", &gcra, Op::Check { cost: 1 }).unwrap();
    let KeyReply::Decision { tick, epoch, .. } = taken else { panic!("no decision") };
    let five = Op::Refund { tick, units: 5, epoch };
    assert_eq!(caller.run(START, "h", &gcra, five).unwrap(), KeyReply::Units(1));
    // A third of a second has no whole number of ticks.
    let thirds = limits(Algorithm::Gcra, &[(3, 1000)]);
    let taken = caller.run(START, "t", &thirds, Op::Check { cost: 3 }).unwrap();
    let KeyReply::Decision { tick, epoch, .. } = taken else { panic!("no decision") };
    for left in [2, 1, 0] {
        let one = Op::Refund { tick, units: 1, epoch };
        assert_eq!(caller.run(START, "t", &thirds, one).unwrap(), KeyReply::Units(1));
        assert_eq!(decided(&caller.run(START, "t", &thirds, peek).unwrap()).2, left);
    }
}

// Bursts and pauses, so that the front passes records of the index, which is then extended.
#[test]
pub(super) fn bursts_that_expire_in_part_are_exact() {
    let mut caller = Caller::start();
    let mut random = Random::new(12);
    for round in 0..12 {
        caller.flush();
        let window = 1000;
        let limits = limits(Algorithm::Log, &[(1 << 40, window)]);
        let (mut model, mut now) = (Model::default(), START);
        for burst in 0..3 {
            for _ in 0..random.between(260, 700) {
                now += ms(1);
                let tick = u64::try_from(now.as_millis()).unwrap();
                let reply = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
                model.take(tick, 1);
                model.entries.retain(|(at, _)| at + window > tick);
                let used = model.used(tick, window);
                assert_eq!(decided(&reply).2, used, "round {round}, burst {burst} at {tick}");
            }
            now += ms(random.pick(&[0, 300, 450, 600, 700, 850]));
        }
    }
}

// About as many entries as a block has, so that the front passes the last record of the index.
#[test]
pub(super) fn steady_load_is_exact() {
    let mut caller = Caller::start();
    for window in [250, 256, 262, 268] {
        caller.flush();
        let limits = limits(Algorithm::Log, &[(1 << 40, window)]);
        for step in 1..=1000 {
            let reply = caller.run(START + ms(step), "k", &limits, Op::Check { cost: 1 }).unwrap();
            assert_eq!(decided(&reply).2, step.min(window), "window {window}, step {step}");
        }
    }
}

/// A log with an index: an entry per millisecond, and its model.
fn long_log(caller: &mut Caller, quotas: &[(u64, u64)], entries: u64) -> (Model, Duration, u16) {
    caller.flush();
    let limits = limits(Algorithm::Log, quotas);
    let (mut model, mut now, mut of) = (Model::default(), START, 0);
    for _ in 0..entries {
        now += ms(1);
        let reply = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
        let KeyReply::Decision { epoch, tick, .. } = reply else { panic!("no decision") };
        of = epoch;
        model.take(tick, 1);
    }
    (model, now, of)
}

// A denied check under another window writes nothing, and reads the units as of the latest one.
#[test]
pub(super) fn another_window_writes_nothing_until_it_takes_units() {
    let mut caller = Caller::start();
    let check = Op::Check { cost: 1 };
    for algorithm in [Algorithm::Counter, Algorithm::Fixed, Algorithm::Segments { count: 6 }] {
        caller.flush();
        let (long, short) = (limits(algorithm, &[(3, 6000)]), limits(algorithm, &[(3, 600)]));
        for at in [0, 100, 200] {
            assert!(decided(&caller.run(START + ms(at), "k", &long, check).unwrap()).0);
        }
        let before: Vec<u8> = caller.command("GET k");
        let denied = caller.run(START + ms(300), "k", &short, check).unwrap();
        let wait = retry_after(&denied).unwrap();
        for at in [310, 350, 399] {
            assert!(!decided(&caller.run(START + ms(at), "k", &short, check).unwrap()).0);
        }
        assert_eq!(caller.command::<Vec<u8>>("GET k"), before, "{algorithm:?}");
        let due = START + ms(300) + wait;
        assert!(!decided(&caller.run(due.saturating_sub(ms(1)), "k", &short, check).unwrap()).0);
        assert!(decided(&caller.run(due, "k", &short, check).unwrap()).0, "{algorithm:?}");
    }
}

// Also units of the window or the segments before the current one.
#[test]
pub(super) fn forgiving_takes_the_oldest_units_first() {
    let mut caller = Caller::start();
    let segments = Algorithm::Segments { count: 6 };
    // Of the window before the current one, `Fixed` counts nothing.
    for (algorithm, expected) in
        [(Algorithm::Counter, (4, 2)), (Algorithm::Fixed, (3, 0)), (segments, (4, 2))]
    {
        caller.flush();
        let limits = limits(algorithm, &[(10, 1200)]);
        for at in [300, 450] {
            let _ = caller.run(START + ms(at), "k", &limits, Op::Check { cost: 3 }).unwrap();
        }
        let now = START + ms(500);
        let given = caller.given(now, &limits, Op::Forgive { units: 4 });
        let left = caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        assert_eq!((given, decided(&left).2), expected, "{algorithm:?}");
    }
}

// Whole blocks are emptied at once, also between the cursors of two quotas, and behind entries that only
// a longer window counts.
#[test]
pub(super) fn forgiving_across_blocks_is_exact() {
    let mut caller = Caller::start();
    let many = 1 << 40;
    for quotas in [&[(many, 60_000)][..], &[(many, 1000), (many, 60_000)]] {
        for (from, units) in [(200, 900), (1000, 2), (0, 1500), (300, 1400)] {
            let (mut model, now, _) = long_log(&mut caller, quotas, 2000);
            let begin = u64::try_from(START.as_millis()).unwrap();
            let age = u64::try_from(now.as_millis()).unwrap() - (begin + from);
            let shorter: Vec<_> = quotas.iter().map(|(limit, _)| (*limit, age + 1)).collect();
            let shorter = limits(Algorithm::Log, &shorter).keeping(ms(60_000));
            let limits = limits(Algorithm::Log, quotas);
            let op = Op::Forgive { units };
            assert_eq!(caller.given(now, &shorter, op), model.forgive(begin + from, units));
            model.entries.retain(|(_, units)| *units > 0);
            assert_eq!(caller.history(now, &limits), model.entries, "{op:?}");
            let tick = u64::try_from(now.as_millis()).unwrap();
            let used = decided(&caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap()).2;
            assert_eq!(used, model.used(tick, quotas[0].1), "{op:?}");
        }
    }
}

// One entry after another, so that each record of the index loses the entry it is of.
#[test]
pub(super) fn entries_at_the_border_of_a_block_are_refunded() {
    let mut caller = Caller::start();
    let quotas = [(1 << 40, 60_000)];
    let (mut model, now, epoch) = long_log(&mut caller, &quotas, 900);
    let limits = limits(Algorithm::Log, &quotas);
    let begin = u64::try_from(START.as_millis()).unwrap();
    for from in (240..600).chain((100..240).rev()) {
        let op = Op::Refund { tick: begin + from, units: 1, epoch };
        assert_eq!(caller.given(now, &limits, op), model.give_back(begin + from, 1), "{from}");
        if from % 20 == 0 {
            let left: Vec<_> =
                model.entries.iter().copied().filter(|(_, units)| *units > 0).collect();
            assert_eq!(caller.history(now, &limits), left, "{from}");
        }
    }
}

// All ticks of the index move with the clock.
#[test]
pub(super) fn long_log_moves_with_the_clock() {
    let mut caller = Caller::start();
    let quotas = [(1 << 40, 60_000)];
    let (model, now, _) = long_log(&mut caller, &quotas, 1500);
    let limits = limits(Algorithm::Log, &quotas);
    let back = now.saturating_sub(ms(5000));
    let _ = caller.run(back, "k", &limits, Op::Check { cost: 1 }).unwrap();
    let mut moved: Vec<_> =
        model.entries.iter().map(|(tick, units)| (tick - 5000, *units)).collect();
    moved.last_mut().unwrap().1 += 1;
    assert_eq!(caller.history(back, &limits), moved);
}

// While nothing is written, entries expire up to the last block. The next record is found from the first
// entry that counts, because the record before it is of an expired one.
#[test]
pub(super) fn index_continues_after_expired_records() {
    let mut caller = Caller::start();
    let window = 2530;
    let limits = limits(Algorithm::Log, &[(1 << 40, window)]);
    let (mut model, mut now, mut tick) = (Model::default(), START, 0);
    for gap in [[10; 265].as_slice(), &[1701], &[1; 600]].concat() {
        now += ms(gap);
        tick = u64::try_from(now.as_millis()).unwrap();
        let reply = caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap();
        model.take(tick, 1);
        assert_eq!(decided(&reply), (true, 1, model.used(tick, window)), "at {tick}");
    }
    model.entries.retain(|(at, _)| at + window > tick);
    assert_eq!(caller.history(now, &limits), model.entries);
}
