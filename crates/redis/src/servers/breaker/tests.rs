//! Tests of `breaker`.

use super::*;

const SETTINGS: BreakerSettings = BreakerSettings {
    failures: 3,
    open_min: Duration::from_millis(100),
    open_max: Duration::from_millis(800),
};

fn fail(breaker: &Breaker, now: Instant) -> bool {
    breaker.enter(now).expect("a pass").fail(now, 1)
}

#[test]
fn opens_after_failures_in_a_row_only() {
    let (breaker, now) = (Breaker::new(SETTINGS), Instant::now());
    assert!(!fail(&breaker, now));
    assert!(!fail(&breaker, now));
    breaker.enter(now).unwrap().succeed();
    assert!(!fail(&breaker, now));
    assert!(!fail(&breaker, now));
    assert!(fail(&breaker, now));
    assert_eq!(breaker.state(now), BreakerState::Open);
    assert!(breaker.enter(now).unwrap_err() <= SETTINGS.open_min);
}

#[test]
fn one_probe_at_a_time_and_success_closes() {
    let (breaker, now) = (Breaker::new(SETTINGS), Instant::now());
    breaker.trip(now);
    assert_eq!(breaker.state(now), BreakerState::Open);
    let later = now + SETTINGS.open_min;
    assert_eq!(breaker.state(later), BreakerState::HalfOpen);
    let probe = breaker.enter(later).unwrap();
    assert_eq!(breaker.state(later), BreakerState::HalfOpen);
    assert!(breaker.enter(later).is_err(), "a second probe next to the first");
    probe.succeed();
    assert_eq!(breaker.state(later), BreakerState::Closed);
    assert!(breaker.enter(later).is_ok());
}

#[test]
fn a_probe_that_was_dropped_lets_the_next_one_try() {
    let (breaker, now) = (Breaker::new(SETTINGS), Instant::now());
    breaker.trip(now);
    let later = now + SETTINGS.open_min;
    drop(breaker.enter(later).unwrap());
    assert!(breaker.enter(later).is_ok());
}

#[test]
fn failed_probes_wait_longer_up_to_the_bound() {
    let (breaker, mut now) = (Breaker::new(SETTINGS), Instant::now());
    breaker.trip(now);
    let mut waits = Vec::new();
    for _ in 0..8 {
        now += SETTINGS.open_max;
        fail(&breaker, now);
        waits.push(breaker.enter(now).unwrap_err());
    }
    assert!(waits[0] >= SETTINGS.open_min / 2);
    assert!(waits.iter().all(|wait| *wait <= SETTINGS.open_max));
    assert!(waits[7] >= SETTINGS.open_max / 2);
}

#[test]
fn an_outdated_success_does_not_close_it() {
    let (breaker, now) = (Breaker::new(SETTINGS), Instant::now());
    let old = breaker.enter(now).unwrap();
    breaker.trip(now);
    old.succeed();
    assert_eq!(breaker.state(now), BreakerState::Open);
}

#[test]
fn random_times_spread_over_the_whole_range() {
    let most = Duration::from_millis(100);
    let drawn: Vec<_> = (0..1000).map(|_| random_up_to(most)).collect();
    assert!(drawn.iter().all(|time| *time <= most));
    assert!(drawn.iter().any(|time| *time < most / 10));
    assert!(drawn.iter().any(|time| *time > most * 9 / 10));
    assert_eq!(random_up_to(Duration::ZERO), Duration::ZERO);
}
