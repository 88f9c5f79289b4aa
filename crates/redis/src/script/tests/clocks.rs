//! The server's clock, stepped back and forward.
//!
//! The test's own time goes on evenly; what the server's clock shows is that and an offset, which
//! jumps.

use core::time::Duration;

use slidegate::Algorithm;
use slidegate_testkit::{Random, never_over};

use super::super::{KeyReply, Op, ScriptLimits};
use super::{ALGORITHMS, Caller, START, decided, limits, ms, nanos, refund_of, retry_after};

const WINDOW_MS: u64 = 1000;
const LIMIT: u64 = 10;

/// How much more than the limit an algorithm lets through in its worst window, as a factor.
fn factor(algorithm: Algorithm) -> u64 {
    match algorithm {
        Algorithm::Log | Algorithm::LogCapped { .. } | Algorithm::Segments { .. } => 1,
        _ => 2,
    }
}

/// Whether a step back moves the borders of the windows, so that one more limit may pass.
fn is_aligned(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Counter | Algorithm::Fixed)
}

// Units that seem to be younger than they are may be counted too long, never too short.
#[test]
fn a_clock_that_steps_back_lets_nobody_over_the_limit() {
    let mut caller = Caller::start();
    for seed in 0..120 {
        let mut random = Random::new(seed);
        let algorithm = random.pick(&ALGORITHMS);
        let limits = limits(algorithm, &[(LIMIT, WINDOW_MS)]);
        caller.flush();
        let mut real = Duration::from_secs(1_000_000);
        let mut offset = START;
        let (mut admitted, mut steps) = (Vec::new(), Vec::new());
        for _ in 0..200 {
            real += Duration::from_micros(random.pick(&[0, 10, 999, 1000, 40_000, 300_000]));
            if random.chance(8) {
                offset -= ms(random.pick(&[1, 10, 500, 999, 1000, 1001, 5000, 100_000]));
                steps.push((nanos(real), 1));
            }
            let cost = random.pick(&[1, 1, 2, 5]);
            let answer = caller.run(real + offset, "k", &limits, Op::Check { cost }).unwrap();
            if decided(&answer).0 {
                admitted.push((nanos(real), cost));
            }
        }
        // The most steps that one window saw.
        let window = WINDOW_MS * 1_000_000;
        let most_steps = never_over(&steps, 0, window).map_or(0, |fullest| fullest.units);
        let extra = if is_aligned(algorithm) { u64::try_from(most_steps).unwrap() } else { 0 };
        let most = LIMIT * (factor(algorithm) + extra);
        let violation = never_over(&admitted, most, window);
        assert_eq!(violation, None, "{algorithm:?}, seed {seed}");
    }
}

/// The windows after which at least one unit is available again, whatever was taken.
fn windows_locked(algorithm: Algorithm) -> u64 {
    // A counter weighs what is behind it for another window; a segment counts whole.
    match algorithm {
        Algorithm::Counter | Algorithm::Segments { .. } => 2,
        _ => 1,
    }
}

// Without the shift a clock that is set back by an hour would lock everybody for an hour, or for
// ever if each look at it counted anew.
#[test]
fn nobody_is_locked_for_more_than_a_window_after_a_step_back() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        for (back_ms, keep_asking) in [(1, true), (900, false), (5000, true), (3_600_000, true)] {
            let limits = limits(algorithm, &[(LIMIT, WINDOW_MS)]);
            caller.flush();
            let mut now = START + ms(321);
            for _ in 0..LIMIT {
                assert!(take(&mut caller, now, &limits), "{algorithm:?}");
            }
            now -= ms(back_ms);
            assert!(!take(&mut caller, now, &limits), "{algorithm:?} forgot all, back {back_ms}");
            let end = now + ms(windows_locked(algorithm) * WINDOW_MS) + ms(2);
            while keep_asking && now + ms(200) < end {
                now += ms(90);
                let peek = caller.run(now, "k", &limits, Op::Peek { cost: 1 }).unwrap();
                let wait = retry_after(&peek).unwrap();
                assert!(now + wait <= end, "{algorithm:?}, back {back_ms}: {wait:?} at {now:?}");
            }
            assert!(take(&mut caller, end, &limits), "{algorithm:?} is locked, back {back_ms}");
        }
    }
}

fn take(caller: &mut Caller, now: Duration, limits: &ScriptLimits) -> bool {
    decided(&caller.run(now, "k", limits, Op::Check { cost: 1 }).unwrap()).0
}

// What a receipt names has been moved: it must not give back somebody else's units.
#[test]
fn receipts_are_void_after_a_step_back() {
    let mut caller = Caller::start();
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(LIMIT, WINDOW_MS)]);
        caller.flush();
        let taken = caller.run(START, "k", &limits, Op::Check { cost: 3 }).unwrap();
        let back = START.saturating_sub(ms(5000));
        assert!(take(&mut caller, back, &limits), "{algorithm:?}");
        let given = caller.run(back, "k", &limits, refund_of(&taken)).unwrap();
        assert_eq!(given, KeyReply::Units(0), "{algorithm:?}");
        let peek = caller.run(back, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        assert_eq!(decided(&peek).2, 4, "{algorithm:?}");
    }
}

// A step forward can cost one limit more; it must neither fail nor lock, and the end of a walk is
// like any other time.
#[test]
fn a_clock_that_jumps_about_fails_nothing() {
    let mut caller = Caller::start();
    for seed in 0..120 {
        let mut random = Random::new(1000 + seed);
        let algorithm = random.pick(&ALGORITHMS);
        let limits = limits(algorithm, &[(LIMIT, WINDOW_MS), (3 * LIMIT, 7 * WINDOW_MS)]);
        caller.flush();
        let start = random.pick(&[0, 5, 5000, 1_700_000_000_000, 4_102_444_800_000]);
        let mut now = ms(start);
        let (mut steps, mut admitted) = (1, 0);
        for _ in 0..150 {
            let jump = ms(random.pick(&[1, 999, 1001, 60_000, 100_000_000]));
            match random.between(0, 19) {
                0 => now = now.saturating_sub(jump),
                1 => {
                    now += jump;
                    steps += 1;
                }
                _ => now += Duration::from_micros(random.between(0, 900)),
            }
            admitted += u64::from(take(&mut caller, now, &limits));
        }
        // All of it lasts far less than a window of real time.
        let most = steps * LIMIT * factor(algorithm);
        assert!(admitted <= most, "{algorithm:?}, seed {seed}: {admitted} in {steps} steps");
        now += ms(16 * WINDOW_MS);
        assert!(take(&mut caller, now, &limits), "{algorithm:?}, seed {seed}: locked");
    }
}
