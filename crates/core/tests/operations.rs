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
