//! Rates and percentiles over time.

use super::*;

#[test]
fn percentiles_are_interpolated_within_their_bucket() {
    let mut times: Times = [0; BOUNDS.len() + 1];
    assert_eq!(percentile(&times, 0.5), None);
    // Ten decisions took at most 1 µs, and ten more at most 2 µs.
    times[0] = 10;
    times[1..].fill(20);
    assert_eq!(percentile(&times, 0.5), Some(1_000));
    assert_eq!(percentile(&times, 0.75), Some(1_500));
    assert_eq!(percentile(&times, 1.0), Some(2_000));
}

#[test]
fn rates_are_differences_per_second() {
    let mut rates = Rates::default();
    let requests = |allowed, denied| Requests { allowed, denied, would_be_denied: 0 };
    rates.push(requests(100, 5), 1.0);
    assert_eq!(rates.seconds().last(), Some(&[0, 0, 0]));
    rates.push(requests(130, 5), 2.0);
    assert_eq!(rates.seconds().last(), Some(&[15, 0, 0]));
    rates.push(requests(130, 11), 1.0);
    assert_eq!(rates.current().map(f64::to_bits), [5.0, 2.0, 0.0].map(f64::to_bits));
}

#[test]
fn parts_cover_the_fifteen_minutes() {
    let mut rates = Rates::default();
    for second in 0..=SECONDS as u64 + 10 {
        let requests = Requests { allowed: second * 3, denied: second, would_be_denied: 0 };
        rates.push(requests, 1.0);
    }
    assert_eq!(rates.seconds().len(), SECONDS);
    assert_eq!(rates.parts(60), vec![[3, 1]; 60]);
}
