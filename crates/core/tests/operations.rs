//! Charges and checks of at most n units: cases that the traces in `conformance/` do not cover.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, LimiterBuilder, ManualClock, Policy, Quota};

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const START: Duration = Duration::from_millis(1_700_000_012_345);

fn builder(algorithm: Algorithm, clock: &ManualClock) -> LimiterBuilder {
    let policy =
        Policy::builder("test").quota(Quota::per_minute(10)).algorithm(algorithm).build().unwrap();
    Limiter::builder(policy).clock(clock.clone())
}

fn limiter(algorithm: Algorithm) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(START);
    (builder(algorithm, &clock).build().unwrap(), clock)
}

/// Repeated charges exceed the capacity of a count. Expiry must not subtract units that were never
/// added, and a snapshot with such debt must be readable.
#[test]
fn huge_debt_expires_and_survives_a_restart() {
    for algorithm in ALGORITHMS {
        let (limiter, clock) = limiter(algorithm);
        for _ in 0..20 {
            assert_eq!(limiter.charge("k", u64::MAX), Quota::LIMIT_MAX);
            clock.advance(Duration::from_secs(1));
        }
        assert!(!limiter.check("k").is_allowed(), "{algorithm:?}");
        let mut file = Vec::new();
        limiter.save(&mut file).unwrap();
        let (restored, report) = builder(algorithm, &clock).restore(&mut file.as_slice()).unwrap();
        assert_eq!(report.keys, 1, "{algorithm:?}");
        assert!(!restored.check("k").is_allowed(), "{algorithm:?}");
        if algorithm == Algorithm::Gcra {
            continue;
        }
        for limiter in [limiter, restored] {
            for _ in 0..130 {
                clock.advance(Duration::from_secs(1));
                let _ = limiter.peek("k");
            }
            assert!(limiter.check("k").is_allowed(), "{algorithm:?}");
        }
    }
}

/// Reports of usage arrive although nothing is left. They may not take memory, and a denial may not
/// last longer than a window after the last of them.
#[test]
fn units_above_the_limit_take_no_memory_and_expire_a_window_after_the_last() {
    for quotas in [&[Quota::per_minute(10)][..], &[Quota::per_second(5), Quota::per_minute(10)]] {
        let clock = ManualClock::new(START);
        let policy = Policy::builder("test").quotas(quotas.iter().copied()).build().unwrap();
        let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        limiter.charge("k", 70_000);
        let mut bytes = 0;
        for round in 0..10_000 {
            clock.advance(Duration::from_millis(5));
            limiter.charge("k", if round % 2 == 0 { 1 } else { 70_000 });
            if round == 10 {
                bytes = limiter.stats().bytes;
            }
        }
        assert!(
            limiter.stats().bytes <= bytes + 64,
            "{} bytes after {bytes}",
            limiter.stats().bytes
        );
        let last = quotas.len() - 1;
        assert_eq!(limiter.usage("k").units(last), 70_000 + 5_000 * 70_001);
        assert_eq!(limiter.history("k").unwrap().len(), 2);
        clock.advance(Duration::from_millis(59_999));
        assert!(!limiter.check("k").is_allowed());
        clock.advance(Duration::from_millis(1));
        assert_eq!(limiter.usage("k").units(last), 0);
        assert!(limiter.check("k").is_allowed());
    }
}

#[test]
fn charge_of_nothing_records_nothing() {
    let (limiter, _) = limiter(Algorithm::Log);
    assert_eq!(limiter.charge("k", 0), 0);
    assert_eq!(limiter.stats().keys, 0);
}

/// A unit left behind by a denied check would have no receipt.
#[test]
fn denied_check_at_most_costs_no_memory() {
    let (limiter, _) = limiter(Algorithm::Log);
    limiter.charge("k", 10);
    let decision = limiter.check_at_most("k", Cost::new(5).unwrap());
    assert!(!decision.is_allowed() && decision.receipt().is_none());
    assert_eq!(limiter.usage("k").units(0), 10);
}

/// Each thread takes what the others leave: together exactly the limit.
#[test]
fn threads_share_the_rest_exactly() {
    let (limiter, _) = limiter(Algorithm::Log);
    let tier = limiter.tier(&[Quota::per_minute(1000)]).unwrap();
    let taken: u64 = std::thread::scope(|scope| {
        let take = || {
            let limiter = limiter.with(&tier).unwrap();
            let check = |_| limiter.check_at_most("k", Cost::new(7).unwrap()).into_receipt();
            (0..100).filter_map(check).map(|receipt| receipt.units()).sum::<u64>()
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(take)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    assert_eq!(taken, 1000);
}

// A single check subtracts the used units from the limit without saturating, and a batch saturated for
// allowed checks too. Both rely on it that an allowed check never uses more than the limit: with debt,
// other quotas, a new window, a clock that does not advance, or refunds, a batch must decide as single checks.
#[test]
fn batches_and_single_checks_agree_with_debt_and_other_quotas() {
    for algorithm in ALGORITHMS {
        let (single, clock) = limiter(algorithm);
        let batched = builder(algorithm, &clock).build().unwrap();
        let mut random = 0x2545_F491_4F6C_DD1D_u64;
        let mut below = |bound: u64| {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            random % bound
        };
        let mut decisions = Vec::new();
        for _ in 0..20_000 {
            let (key, cost) = (below(3), Cost::new(1 + below(12)).unwrap());
            let quota = Quota::new(below(30), Duration::from_millis(1 + below(90_000))).unwrap();
            match below(8) {
                0 => clock.advance(Duration::from_micros(below(20_000_000))),
                1 => {
                    let units = below(20);
                    assert_eq!(single.charge(&key, units), batched.charge(&key, units));
                }
                2 => {
                    let forgiven = below(20);
                    assert_eq!(single.forgive(&key, forgiven), batched.forgive(&key, forgiven));
                }
                3 => {
                    for limiter in [&single, &batched] {
                        let decision = limiter.with_quotas(&[quota]).unwrap().check(&key);
                        assert!(decision.remaining() <= quota.limit());
                    }
                }
                _ => {
                    batched.check_many(&[key], cost, &mut decisions);
                    let [many] = &decisions[..] else { panic!("one decision per key") };
                    let one = single.check_cost(&key, cost);
                    assert_eq!(one.is_allowed(), many.is_allowed(), "{algorithm:?}");
                    assert_eq!(one.remaining(), many.remaining(), "{algorithm:?}");
                    assert_eq!(one.retry_after(), many.retry_after(), "{algorithm:?}");
                    assert!(one.remaining() <= 10, "{algorithm:?}: {one:?}");
                }
            }
        }
    }
}
