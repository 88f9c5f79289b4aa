//! Numbers near 2^53, where a product or a sum no longer fits a double.

use core::time::Duration;

use slidegate::{Algorithm, Quota};

use super::super::{KeyReply, Op, ScriptLimits};
use super::{ALGORITHMS, Caller, START, charge, decided, limits, ms, refund_of};

const MOST: u64 = Quota::LIMIT_MAX;

fn used(caller: &mut Caller, now: Duration, limits: &ScriptLimits) -> u64 {
    decided(&caller.run(now, "k", limits, Op::Peek { cost: 1 }).unwrap()).2
}

// Debt may be many times 2^53 units. They stay exact in a log, and each expires at its time.
#[test]
pub(super) fn debt_beyond_two_to_the_53_is_exact_in_a_log() {
    let mut caller = Caller::start();
    // Units that are alone would join the newest entry.
    let debt = [charge(MOST - 1, 0), charge(1, 0)];
    for quotas in [&[(5, 60_000)][..], &[(5, 60_000), (7, 90_000)]] {
        caller.flush();
        let limits = limits(Algorithm::Log, quotas);
        for step in 0..12 {
            // Two at a time are of one tick, and do not fit one entry.
            let now = START + ms(step / 2 * 1000);
            let _ = caller.run(now, "k", &limits, Op::Charge { charges: &debt }).unwrap();
            assert_eq!(used(&mut caller, now, &limits), MOST * (step + 1), "step {step}");
        }
        for step in 0..=6 {
            let now = START + ms(60_000 + step * 1000);
            assert_eq!(used(&mut caller, now, &limits), MOST * (10 - (step * 2).min(10)));
        }
    }
}

// Entries of 2^53 units do not merge, so a capped log ends as one stretch of them, dated at the last.
#[test]
pub(super) fn capped_log_that_cannot_merge_collapses() {
    let mut caller = Caller::start();
    let capped = limits(Algorithm::LogCapped { bytes_max: 64 }, &[(5, 60_000)]);
    // Units that are alone would join the newest entry.
    let debt = [charge(MOST - 1, 0), charge(1, 0)];
    let mut charged = 0;
    for step in 0..30 {
        let now = START + ms(step * 1000);
        let _ = caller.run(now, "k", &capped, Op::Charge { charges: &debt }).unwrap();
        charged += MOST;
        assert_eq!(used(&mut caller, now, &capped), charged, "step {step}");
    }
    // Nothing counts for less than its window, and all is gone a window after the last.
    assert_eq!(used(&mut caller, START + ms(59_999), &capped), charged);
    assert!(used(&mut caller, START + ms(70_000), &capped) >= MOST * 19);
    assert_eq!(used(&mut caller, START + ms(29_000 + 60_000), &capped), 0);
    // With a few units next to them.
    caller.flush();
    for step in 0..30 {
        let now = START + ms(step * 1000);
        let units = if step % 3 == 0 { 7 } else { MOST };
        let charges = [charge(units - 1, 0), charge(1, 0)];
        let _ = caller.run(now, "k", &capped, Op::Charge { charges: &charges }).unwrap();
    }
    let now = START + ms(29_000);
    assert_eq!(used(&mut caller, now, &capped), MOST * 20 + 70);
}

// The other algorithms stop counting at 2^53, until the key is empty again.
#[test]
pub(super) fn counts_stop_at_two_to_the_53() {
    let mut caller = Caller::start();
    let algorithms = [Algorithm::Counter, Algorithm::Segments { count: 6 }, Algorithm::Fixed];
    for algorithm in algorithms {
        caller.flush();
        let limits = limits(algorithm, &[(5, 60_000)]);
        let charges = [charge(MOST, 0)];
        let now = START + ms(60_000 - u64::try_from(START.as_millis()).unwrap() % 60_000);
        let mut ticks = Vec::new();
        for step in [0, 1000, 11_000] {
            let at = now + ms(step);
            let _ = caller.run(at, "k", &limits, Op::Charge { charges: &charges }).unwrap();
            ticks.push(u64::try_from(at.as_millis()).unwrap());
        }
        let later = now + ms(12_000);
        assert_eq!(used(&mut caller, later, &limits), MOST + 1, "{algorithm:?}");
        // A saturated count gives nothing back, as the true count is unknown.
        for tick in [ticks[0], ticks[2], 1] {
            let epoch = epoch_of(&mut caller);
            let op = Op::Refund { tick, units: 1, epoch };
            let _ = caller.run(later, "k", &limits, op).unwrap();
        }
        assert!(used(&mut caller, later, &limits) >= MOST - 1, "{algorithm:?}");
        let empty = now + ms(200_000);
        assert_eq!(used(&mut caller, empty, &limits), 0, "{algorithm:?}");
    }
}

/// The epoch that a receipt has now.
fn epoch_of(caller: &mut Caller) -> u16 {
    let value: Vec<u8> = caller.command("GET k");
    u16::from_le_bytes([value[3], value[4]])
}

// The fast paths multiply limit and window; what does not fit is left to the others.
#[test]
pub(super) fn large_products_are_exact() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        caller.flush();
        // A thousand days in milliseconds, times 2^40.
        let limits = limits(algorithm, &[(1 << 40, 86_400_000_000)]);
        let reply = caller.run(START, "k", &limits, Op::Check { cost: 1 << 39 }).unwrap();
        assert_eq!(decided(&reply), (true, 1 << 39, 1 << 39), "{algorithm:?}");
        let reply = caller.run(START, "k", &limits, Op::Check { cost: 1 << 39 }).unwrap();
        assert_eq!(decided(&reply), (true, 1 << 39, 1 << 40), "{algorithm:?}");
        let denied = caller.run(START, "k", &limits, Op::Check { cost: 1 }).unwrap();
        assert_eq!(decided(&denied), (false, 0, 1 << 40), "{algorithm:?}");
        let given = caller.run(START, "k", &limits, refund_of(&reply)).unwrap();
        assert_eq!(given, KeyReply::Units(1 << 39), "{algorithm:?}");
    }
}

// A gap of more than 2^24 ticks takes a code of seven bytes.
#[test]
pub(super) fn long_gaps_are_exact() {
    let mut caller = Caller::start();
    let day = 86_400_000;
    let limits = limits(Algorithm::Log, &[(100, 2 * day)]);
    let hours = |hours: u64| START + ms(hours * 3_600_000);
    let mut replies = Vec::new();
    for hour in [0, 3, 6, 9, 20, 21, 22, 23] {
        replies.push(caller.run(hours(hour), "k", &limits, Op::Check { cost: 1 }).unwrap());
    }
    // The gaps on both sides of it add up to more than 2^24.
    for at in [2, 5, 0] {
        let given = caller.run(hours(24), "k", &limits, refund_of(&replies[at])).unwrap();
        assert_eq!(given, KeyReply::Units(1));
    }
    assert_eq!(used(&mut caller, hours(24), &limits), 5);
    for (hour, left) in [(50, 5), (51, 4), (57, 3), (68, 2), (70, 1), (71, 0)] {
        assert_eq!(used(&mut caller, hours(hour), &limits), left, "hour {hour}");
    }
}
