//! Numbers at the edges of their ranges, leases, and logs at their cap.

use core::time::Duration;

use slidegate::{Algorithm, ErrorKind, Quota};
use slidegate_testkit::{Random, never_over};

use super::super::{KeyOp, KeyReply, Op, ScriptLimits};
use super::{ALGORITHMS, Caller, START, decided, limits, ms, nanos, retry_after};

const HUGE: u64 = (1 << 53) - 1;

/// The first of January 2100.
const LATE: Duration = Duration::from_secs(4_102_444_800);

// Doubles end to be exact at 2^53; times in microseconds come near it.
#[test]
fn limits_at_the_edges_are_exact_to_the_unit() {
    let mut caller = Caller::start();
    for start in [START, LATE] {
        for algorithm in ALGORITHMS {
            for limit in [1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, HUGE - 1, HUGE] {
                caller.flush();
                let limits = limits(algorithm, &[(limit, 60_000)]);
                let mut ask = |cost| {
                    let answer = caller.run(start, "k", &limits, Op::Check { cost }).unwrap();
                    (decided(&answer), retry_after(&answer))
                };
                let what = format!("{algorithm:?}, {limit}");
                if limit < HUGE {
                    assert_eq!(ask(limit + 1), ((false, 0, 0), None), "{what}");
                }
                if limit > 1 {
                    assert_eq!(ask(limit - 1).0, (true, limit - 1, limit - 1), "{what}");
                    let (denied, wait) = ask(2);
                    assert_eq!(denied, (false, 0, limit - 1), "{what}");
                    assert!(wait.is_some_and(|wait| !wait.is_zero()), "{what}");
                }
                assert_eq!(ask(1).0, (true, 1, limit), "{what}");
                assert_eq!(ask(1).0, (false, 0, limit), "{what}");
            }
        }
    }
}

// Ticks of other lengths, and instants that fall between them: down to judge, up to date.
#[test]
fn ticks_are_rounded_to_the_safe_side() {
    let mut caller = Caller::start();
    for micros in [100, 137, 1000, 999_999, 1_000_000] {
        let tick = Duration::from_micros(micros);
        let quota = [Quota::new(1, tick * 10).unwrap()];
        let limits = ScriptLimits::new(&quota, Algorithm::Log, tick, tick).unwrap();
        // The tick that LATE falls into begins at most a tick before.
        let begin = LATE.as_micros() / u128::from(micros) * u128::from(micros);
        let begin = Duration::from_micros(u64::try_from(begin).unwrap());
        let between = begin + Duration::from_micros(1);
        caller.flush();
        let mut allowed =
            |now| decided(&caller.run(now, "k", &limits, Op::Check { cost: 1 }).unwrap()).0;
        assert!(allowed(between));
        // Dated at the next tick, so it counts until eleven ticks after the begin of this one.
        assert!(!allowed((begin + tick * 11).saturating_sub(Duration::from_micros(1))), "{tick:?}");
        assert!(allowed(begin + tick * 11), "{tick:?}");
    }
    let quota = [Quota::new(1, ms(10)).unwrap()];
    for tick in [ms(0), ms(1001), Duration::from_nanos(100_500), Duration::from_micros(99)] {
        let error = ScriptLimits::new(&quota, Algorithm::Log, tick, tick).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Setting, "{tick:?}");
    }
    let error = ScriptLimits::new(&[], Algorithm::Log, ms(1), ms(1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Policy);
}

// A lease takes what there is and counts from its end, so that its holder may use it until then.
#[test]
fn a_lease_takes_what_fits_and_is_dated_ahead() {
    let mut caller = Caller::start();
    let window = ms(1000);
    let limits = limits(Algorithm::Log, &[(10, 1000)]);
    let lease = |units_max| Op::Lease { units_min: 1, units_max, ahead: ms(50) };
    let ask = |caller: &mut Caller, at, op| caller.run(START + ms(at), "k", &limits, op).unwrap();
    assert_eq!(decided(&ask(&mut caller, 0, Op::Check { cost: 3 })), (true, 3, 3));
    assert_eq!(decided(&ask(&mut caller, 0, lease(4))), (true, 4, 7));
    assert_eq!(decided(&ask(&mut caller, 10, lease(100))), (true, 3, 10));
    let none = ask(&mut caller, 20, lease(5));
    assert_eq!(decided(&none), (false, 0, 10));
    assert_eq!(retry_after(&none), Some(ms(980)));
    // The three go at 1000, the first lease at 1050, the second at 1060.
    assert_eq!(decided(&ask(&mut caller, 1000, Op::Peek { cost: 1 })).2, 7);
    assert_eq!(decided(&ask(&mut caller, 1049, Op::Peek { cost: 1 })).2, 7);
    assert_eq!(decided(&ask(&mut caller, 1050, Op::Peek { cost: 1 })).2, 3);
    let _ = ask(&mut caller, 1055, Op::Check { cost: 1 });
    let KeyReply::History(entries) = ask(&mut caller, 1055, Op::History) else {
        panic!("no history")
    };
    let begin = u64::try_from(START.as_millis()).unwrap();
    let entries: Vec<_> = entries.into_iter().map(|(tick, units)| (tick - begin, units)).collect();
    assert_eq!(entries, [(60, 3), (1055, 1)]);
    assert!(window > ms(50));
}

// What is not used goes back, and a clock gone back is not taken for one that is leased ahead.
#[test]
fn a_lease_is_given_back_and_moves_with_the_clock() {
    let mut caller = Caller::start();
    for algorithm in [Algorithm::Log, Algorithm::Gcra] {
        caller.flush();
        let limits = limits(algorithm, &[(10, 1000)]);
        let lease = Op::Lease { units_min: 1, units_max: 6, ahead: ms(500) };
        let KeyReply::Decision { tick, units, epoch, .. } =
            caller.run(START, "k", &limits, lease).unwrap()
        else {
            panic!("no decision");
        };
        assert_eq!(units, 6);
        // Within the lease time goes on, and nothing is shifted.
        let later = START + ms(1);
        let answer = caller.run(later, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        assert!(decided(&answer).2 >= 6, "{algorithm:?}");
        let refund = Op::Refund { tick, units: 4, epoch };
        assert_eq!(caller.run(later, "k", &limits, refund).unwrap(), KeyReply::Units(4));
        // Back by ten seconds: all is free at most a window and the lease later.
        let back = START.saturating_sub(ms(10_000));
        let _ = caller.run(back, "k", &limits, Op::Peek { cost: 1 }).unwrap();
        let answer = caller.run(back + ms(1502), "k", &limits, Op::Peek { cost: 10 }).unwrap();
        assert_eq!(retry_after(&answer), Some(ms(0)), "{algorithm:?}");
    }
}

#[test]
fn what_an_algorithm_cannot_do_is_a_typed_error() {
    for algorithm in ALGORITHMS {
        let limits = limits(algorithm, &[(10, 1000)]);
        let lease = KeyOp::new(&limits, Op::Lease { units_min: 1, units_max: 1, ahead: ms(1) });
        assert_eq!(lease.is_ok(), limits.can_lease(), "{algorithm:?}");
        let history = KeyOp::new(&limits, Op::History);
        assert_eq!(history.is_ok(), limits.has_history(), "{algorithm:?}");
        for error in [lease.err(), history.err()].into_iter().flatten() {
            assert_eq!(error.kind(), ErrorKind::Unsupported);
        }
    }
    let limits = limits(Algorithm::Log, &[(10, 1000)]);
    let far = KeyOp::new(
        &limits,
        Op::Lease { units_min: 1, units_max: 1, ahead: Duration::from_secs(100_000) },
    );
    assert_eq!(far.unwrap_err().kind(), ErrorKind::Setting);
}

// At the cap neighbours are merged: to the later date, so never over, and never beyond the cap.
#[test]
fn a_log_at_its_cap_is_never_over_and_never_larger() {
    let mut caller = Caller::start();
    for (seed, bytes_max) in (0..24).zip([64, 100, 512, 4096].into_iter().cycle()) {
        let mut random = Random::new(seed);
        caller.flush();
        let quotas: &[(u64, u64)] =
            if seed % 2 == 0 { &[(300, 3000)] } else { &[(300, 3000), (90, 500)] };
        let limits = limits(Algorithm::LogCapped { bytes_max }, quotas);
        let mut now = ms(0);
        let mut admitted = Vec::new();
        for _ in 0..1500 {
            now += Duration::from_micros(random.pick(&[0, 500, 1000, 3000, 20_000]));
            let cost = random.pick(&[1, 1, 1, 3]);
            let answer = caller.run(START + now, "k", &limits, Op::Check { cost }).unwrap();
            if decided(&answer).0 {
                admitted.push((nanos(now), cost));
            }
            let bytes: u32 = caller.command("STRLEN k");
            assert!(bytes <= bytes_max + 90, "seed {seed}: {bytes} bytes");
        }
        for &(limit, millis) in quotas {
            let violation = never_over(&admitted, limit, millis * 1_000_000);
            assert_eq!(violation, None, "seed {seed}, cap {bytes_max}");
        }
        // It still admits: what was merged goes in time.
        let all: u64 = admitted.iter().map(|(_, units)| units).sum();
        assert!(all > 400, "seed {seed}, cap {bytes_max}: {all}");
    }
}
