//! Rates and percentiles over time.

use slidegate::{Cost, Limiter, Policy, Quota};
use slidegate_gate::{Caller, Gate};

use super::*;
use crate::dashboard::charts::{self, Zone};

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

#[test]
fn percentiles_and_rates_are_those_of_the_metrics_page() {
    let metrics = Arc::new(Metrics::new());
    let limiter = Limiter::new(Policy::new("api", Quota::per_hour(60)).unwrap()).unwrap();
    let gate = Gate::builder(limiter).metrics(&metrics).build().unwrap();
    let mut history = History::default();
    history.sample(&metrics, |_| false, 0, 1.0);
    for number in 0..100 {
        gate.check_in_process(
            b"alice",
            None,
            Cost::new(number % 3 + 1).unwrap(),
            Caller::IN_PROCESS,
        );
    }
    history.sample(&metrics, |_| false, 1000, 1.0);
    let page = metrics.render();
    let buckets = page.lines().filter_map(|line| {
        let buckets = line.strip_prefix("rate_limit_decision_seconds_bucket{")?;
        Some(buckets.rsplit_once(' ').unwrap().1.parse().unwrap())
    });
    let buckets: Vec<u64> = buckets.collect();
    let buckets: Times = buckets.try_into().unwrap();
    assert_eq!(buckets.last(), Some(&100));
    assert_eq!(history.latency(), PERCENTILES.map(|(_, share)| percentile(&buckets, share)));
    let count = |outcome: &str| -> u32 {
        let sample = format!(
            "rate_limit_requests_total{{policy=\"api\",mode=\"enforce\",outcome=\"{outcome}\"}} "
        );
        page.lines().find_map(|line| line.strip_prefix(&sample)).unwrap().parse().unwrap()
    };
    assert!(count("denied") > 0);
    let second = history.all().seconds().last();
    assert_eq!(second, Some(&[count("allowed"), count("denied"), 0]));
}

#[test]
fn the_latency_chart_shows_every_spike() {
    let chart = |start: u64, spike: Option<u64>| {
        let mut history = History::default();
        for second in start..start + SECONDS as u64 {
            let nanos = if spike == Some(second) { 1_000_000_000 } else { 1000 };
            push(&mut history.at, second * 1000);
            push(&mut history.latency, PERCENTILES.map(|_| Some(nanos)));
        }
        charts::latency(&history, 600, Zone::default())
    };
    for start in 1000..1010 {
        assert_ne!(chart(start, Some(1500)), chart(start, None), "from second {start}");
    }
}
