//! Refunds without a receipt.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, Policy, Quota};

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
