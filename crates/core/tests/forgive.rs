//! Refunds without a receipt.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, Policy, Quota};
use slidegate_testkit::Random;

fn limiter(algorithm: Algorithm, clock: &ManualClock) -> Limiter {
    let quota = Quota::per_minute(10);
    let policy = Policy::builder("api").quota(quota).algorithm(algorithm).build().unwrap();
    Limiter::builder(policy).clock(clock.clone()).build().unwrap()
}

#[test]
fn forgiven_units_can_be_taken_again() {
    for algorithm in [
        Algorithm::Log,
        Algorithm::Counter,
        Algorithm::Segments { count: 6 },
        Algorithm::Gcra,
        Algorithm::Fixed,
    ] {
        let clock = ManualClock::new(Duration::from_secs(1_000_020));
        let limiter = limiter(algorithm, &clock);
        assert!(limiter.check_cost("k", Cost::new(10).unwrap()).is_allowed());
        assert!(!limiter.check("k").is_allowed());
        assert_eq!(limiter.forgive("k", 4), 4, "{algorithm:?}");
        assert!(limiter.check_cost("k", Cost::new(4).unwrap()).is_allowed(), "{algorithm:?}");
        assert!(!limiter.check("k").is_allowed(), "{algorithm:?}");
    }
}

#[test]
fn forgives_at_most_the_recorded_units_of_the_key() {
    let clock = ManualClock::new(Duration::from_secs(1_000_020));
    let limiter = limiter(Algorithm::Log, &clock);
    assert_eq!(limiter.forgive("k", 3), 0);
    let _ = limiter.check("k");
    let _ = limiter.check("other");
    assert_eq!(limiter.forgive("k", u64::MAX), 1);
    assert_eq!(limiter.usage("k").units(0), 0);
    assert_eq!(limiter.usage("other").units(0), 1);
}

// The oldest units would expire first anyway; refunding the newest would free more.
#[test]
fn a_log_forgives_the_oldest_units_first() {
    let clock = ManualClock::new(Duration::from_secs(1_000_000));
    let limiter = limiter(Algorithm::Log, &clock);
    for _ in 0..3 {
        let _ = limiter.check("k");
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(limiter.forgive("k", 2), 2);
    let left = limiter.history("k").unwrap();
    assert_eq!(left.iter().map(|event| event.at.as_secs()).collect::<Vec<_>>(), [1_000_002]);
}

fn log_of(quotas: usize, algorithm: Algorithm, clock: &ManualClock) -> Limiter {
    let all = [Quota::per_minute(1_000_000), Quota::per_hour(2_000_000)];
    let policy = Policy::builder("api").quotas(all.into_iter().take(quotas)).algorithm(algorithm);
    Limiter::builder(policy.build().unwrap()).clock(clock.clone()).build().unwrap()
}

// Otherwise the units of another request would be free before their time: three used under two.
#[test]
fn a_receipt_of_forgiven_units_refunds_nothing() {
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }] {
        for quotas in [1, 2] {
            let clock = ManualClock::new(Duration::from_secs(1_000_020));
            let limiter = log_of(quotas, algorithm, &clock);
            let first = limiter.check("k").into_receipt().unwrap();
            clock.advance(Duration::from_millis(5));
            let second = limiter.check("k").into_receipt().unwrap();
            assert_eq!(limiter.forgive("k", 1), 1);
            assert_eq!(limiter.refund(first), 0, "{algorithm:?}, {quotas} quotas");
            assert_eq!(limiter.usage("k").units(0), 1, "{algorithm:?}, {quotas} quotas");
            assert_eq!(limiter.refund(second), 1, "{algorithm:?}, {quotas} quotas");
        }
    }
}

#[test]
fn a_log_refunds_a_rebuilt_receipt_once() {
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }] {
        for quotas in [1, 2] {
            let clock = ManualClock::new(Duration::from_secs(1_000_020));
            let limiter = log_of(quotas, algorithm, &clock);
            let receipt = limiter.check_cost("k", Cost::new(2).unwrap()).into_receipt().unwrap();
            clock.advance(Duration::from_millis(5));
            let _ = limiter.check_cost("k", Cost::new(3).unwrap());
            let again = || limiter.receipt("k", 2, receipt.tick(), receipt.epoch());
            assert_eq!(limiter.refund(again()), 2);
            assert_eq!(limiter.refund(again()), 0, "{algorithm:?}, {quotas} quotas");
            // Settled for less, there is nothing to return either.
            assert_eq!(limiter.settle(again(), 0), 2, "{algorithm:?}, {quotas} quotas");
            assert_eq!(limiter.usage("k").units(0), 3, "{algorithm:?}, {quotas} quotas");
        }
    }
}

// A list of units by tick, and no other rule: a refund takes from its tick, forgiving from the oldest.
#[test]
fn refunds_of_a_log_take_units_of_their_tick_only() {
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let clock = ManualClock::new(Duration::from_secs(1_000_020));
        let limiter = log_of(1 + usize::from(seed % 2 == 0), Algorithm::Log, &clock);
        let mut recorded = BTreeMap::<u64, u64>::new();
        let mut receipts = Vec::new();
        for step in 0..200 {
            let context = format!("seed {seed}, step {step}");
            if random.chance(50) {
                // The larger gaps and costs need longer codes.
                clock.advance(Duration::from_millis(random.pick(&[0, 1, 1, 3, 40])));
                let units = random.pick(&[1, 1, 2, 5, 300, 70_000]);
                let decision = limiter.check_cost("k", Cost::new(units).unwrap());
                let Some(receipt) = decision.into_receipt() else { continue };
                *recorded.entry(receipt.tick()).or_default() += units;
                receipts.push((units, receipt.tick(), receipt.epoch()));
            } else if random.chance(20) {
                let units = random.pick(&[1, 2, 7, 400]);
                let mut left = units;
                for there in recorded.values_mut() {
                    let some = left.min(*there);
                    (*there, left) = (*there - some, left - some);
                }
                assert_eq!(limiter.forgive("k", units), units - left, "{context}: forgiven");
            } else if !receipts.is_empty() {
                // Some are used several times.
                let at = random.index(receipts.len());
                let (units, tick, epoch) = receipts[at];
                if random.chance(60) {
                    receipts.swap_remove(at);
                }
                let there = recorded.entry(tick).or_default();
                let expected = units.min(*there);
                *there -= expected;
                let given = limiter.refund(limiter.receipt("k", units, tick, epoch));
                assert_eq!(given, expected, "{context}: refund of {units} at {tick}");
            }
            recorded.retain(|_, units| *units > 0);
        }
        let left: Vec<_> = limiter.history("k").unwrap();
        let left: Vec<_> = left.iter().map(|event| (event.at.as_millis(), event.units)).collect();
        let expected: Vec<_> =
            recorded.iter().map(|(at, units)| (u128::from(*at), *units)).collect();
        assert_eq!(left, expected, "seed {seed}");
    }
}

// The oldest segments first, whichever units they hold.
#[test]
fn segments_forgive_units_of_all_segments() {
    let clock = ManualClock::new(Duration::from_secs(1_000_020));
    let limiter = limiter(Algorithm::Segments { count: 6 }, &clock);
    for _ in 0..3 {
        assert!(limiter.check_cost("k", Cost::new(2).unwrap()).is_allowed());
        clock.advance(Duration::from_secs(11));
    }
    assert_eq!(limiter.forgive("k", 5), 5);
    assert_eq!(limiter.usage("k").units(0), 1);
    assert_eq!(limiter.forgive("k", 5), 1);
}
