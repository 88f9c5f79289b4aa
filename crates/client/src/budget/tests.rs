//! Tests of `budget`.

use super::*;

fn settings(percent: u8, floor: u32) -> Settings {
    Settings::builder().budget(percent, floor).build().unwrap()
}

fn spent(budget: &mut Budget, settings: &Settings, now: Duration) -> usize {
    (0..1000).take_while(|_| budget.spend(settings, now)).count()
}

#[test]
fn a_tenth_of_the_requests_may_be_retries() {
    let (settings, now) = (settings(10, 0), Duration::ZERO);
    let mut budget = Budget::new(&settings, now);
    assert_eq!(spent(&mut budget, &settings, now), 0);
    for _ in 0..205 {
        budget.earn(&settings, now);
    }
    assert_eq!(spent(&mut budget, &settings, now), 20);
    for _ in 0..5 {
        budget.earn(&settings, now);
    }
    assert_eq!(spent(&mut budget, &settings, now), 1);
}

#[test]
fn time_refills_up_to_the_floor() {
    let (settings, minute) = (settings(0, 10), Duration::from_secs(60));
    let mut budget = Budget::new(&settings, minute);
    assert_eq!(spent(&mut budget, &settings, minute), 10);
    assert_eq!(spent(&mut budget, &settings, minute + Duration::from_secs(6)), 1);
    assert_eq!(spent(&mut budget, &settings, minute * 100), 10);
    // Fractions of a retry must not be lost if it is called every millisecond.
    let times = (0..60_000).map(|millis| minute * 100 + Duration::from_millis(millis));
    let spent = times.filter(|now| budget.spend(&settings, *now)).count();
    assert!((9..=10).contains(&spent), "{spent}");
}

#[test]
fn savings_are_bounded_and_time_may_go_back() {
    let settings = settings(100, 5);
    let mut budget = Budget::new(&settings, Duration::from_secs(9));
    for _ in 0..10_000 {
        budget.earn(&settings, Duration::ZERO);
    }
    assert_eq!(spent(&mut budget, &settings, Duration::ZERO), 105);
    assert_eq!(spent(&mut budget, &settings, Duration::MAX), 5);
}
