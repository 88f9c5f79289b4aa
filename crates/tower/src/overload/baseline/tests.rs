//! Tests of `baseline`.

use super::*;

const SECOND: u64 = 1_000_000_000;
const START: u64 = 1_700_000_000 * SECOND;

fn baseline() -> Baseline {
    Baseline::new(SECOND, 16, 10, 200, 10)
}

/// Feeds `rate` requests per second for some seconds, evenly.
fn feed(baseline: &mut Baseline, from: u64, seconds: u64, rate: u64) -> u64 {
    for second in 0..seconds {
        for request in 0..rate {
            baseline.arrive(START + (from + second) * SECOND + request * (SECOND / rate));
        }
    }
    from + seconds
}

#[test]
fn learns_in_the_warm_up_and_follows_slowly_afterwards() {
    let mut baseline = baseline();
    let at = feed(&mut baseline, 0, 10, 100);
    assert!(!baseline.is_warm());
    let at = feed(&mut baseline, at, 1, 100);
    assert!(baseline.is_warm());
    assert_eq!(baseline.arrivals(), 100);
    // One second with half as many more moves it by a sixteenth of the difference.
    let at = feed(&mut baseline, at, 1, 148);
    baseline.advance(START + at * SECOND);
    assert_eq!(baseline.arrivals(), 103);
}

// Otherwise an attack of a minute would raise the limit for the attacker.
#[test]
fn a_flood_raises_the_baseline_no_faster_than_allowed_traffic() {
    let mut flooded = baseline();
    let at = feed(&mut flooded, 0, 11, 100);
    let at = feed(&mut flooded, at, 8, 100_000);
    flooded.advance(START + at * SECOND);
    // Each second by at most a sixteenth: 100 * (17/16)^8 = 162.
    assert!((155..=165).contains(&flooded.arrivals()), "{}", flooded.arrivals());
}

#[test]
fn quiet_hours_lower_the_baseline_to_the_floor() {
    let mut quiet = baseline();
    feed(&mut quiet, 0, 11, 100);
    quiet.advance(START + 100 * SECOND);
    assert_eq!(quiet.arrivals(), 10);
    quiet.advance(START + 1_000_000 * SECOND);
    assert_eq!(quiet.arrivals(), 10);
    // 2 x 10 per second.
    assert_eq!(quiet.period(), SECOND / 20);
}

#[test]
fn any_numbers_are_accepted() {
    for (interval, weight, percent, floor) in
        [(0, 0, 0, 0), (1, 1, 1, u64::MAX), (u64::MAX, u64::MAX, u64::MAX, u64::MAX)]
    {
        let mut odd = Baseline::new(interval, weight, 0, percent, floor);
        for now in [0, 5, 3, u64::MAX, 0, u64::MAX] {
            odd.arrive(now);
            assert!(odd.period() > 0 || interval == 0 || percent > 0);
            let _ = odd.arrivals();
        }
    }
}
