//! Waits in whole seconds: never early, at most one second late, never longer than the window.
//!
//! What could go wrong: a client that waits for the stated time and is denied again, or one that
//! waits a second longer than necessary.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use proptest::prelude::*;
use slidegate::{Algorithm, Cost, Decision, Limiter, ManualClock, Policy, Quota};
use slidegate_http::{Fields, PolicyDecision};

const EPOCH: Duration = Duration::from_secs(1_700_000_000);
const SECOND: Duration = Duration::from_secs(1);

/// The network time that compensates for ticks: the tick of a unit's recorded time, and the tick of
/// the request's own time.
const ON_THE_WAY: Duration = Duration::from_millis(2);

fn limiter(quota: Quota, algorithm: Algorithm, clock: &ManualClock) -> Limiter {
    let policy = Policy::builder("api").quota(quota).algorithm(algorithm).build().unwrap();
    Limiter::builder(policy).clock(clock.clone()).memory_limit(4 << 20).build().unwrap()
}

fn fields(limiter: &Limiter, decision: &Decision) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let decisions = [PolicyDecision::new(limiter.policy(), decision)];
    Fields::new().write(&decisions, SystemTime::UNIX_EPOCH, &mut headers);
    headers
}

fn number(headers: &HeaderMap, name: &str) -> u64 {
    headers[name].to_str().unwrap().parse().unwrap()
}

/// Returns the parameter `t` of the only quota.
fn t(headers: &HeaderMap) -> u64 {
    headers["ratelimit"].to_str().unwrap().rsplit_once("t=").unwrap().1.parse().unwrap()
}

fn ceil(duration: Duration) -> u64 {
    duration.as_nanos().div_ceil(SECOND.as_nanos()).try_into().unwrap()
}

#[test]
fn the_first_request_says_the_window() {
    // Between two ticks, a unit is recorded later than its request.
    for nanos in [0, 1, 400_000, 999_999] {
        for (limit, window, seconds) in
            [(10, 10_000, 10), (1, 1_000, 1), (5, 1_500, 2), (3, 60_000, 60)]
        {
            let clock = ManualClock::new(EPOCH + Duration::from_nanos(nanos));
            let quota = Quota::new(limit, Duration::from_millis(window)).unwrap();
            let limiter = limiter(quota, Algorithm::Log, &clock);
            let first = fields(&limiter, &limiter.check("alice"));
            assert_eq!(t(&first), seconds, "{limit} per {window} ms at {nanos} ns");
            assert_eq!(number(&first, "x-ratelimit-reset"), seconds);
            for _ in 1..limit {
                let _ = limiter.check("alice");
            }
            let denied = fields(&limiter, &limiter.check("alice"));
            assert_eq!(number(&denied, "retry-after"), seconds);
        }
    }
}

// Ten at once, then one per second. This algorithm records units at the tick before the request.
#[test]
fn a_burst_under_gcra_waits_for_one_unit() {
    for nanos in [0, 1, 400_000, 999_999] {
        let clock = ManualClock::new(EPOCH + Duration::from_nanos(nanos));
        let quota = Quota::new(10, Duration::from_secs(10)).unwrap();
        let limiter = limiter(quota, Algorithm::Gcra, &clock);
        assert_eq!(t(&fields(&limiter, &limiter.check("alice"))), 1);
        for _ in 1..10 {
            let _ = limiter.check("alice");
        }
        let denied = fields(&limiter, &limiter.check("alice"));
        assert_eq!(number(&denied, "retry-after"), 1);
        assert_eq!(t(&denied), 1);
    }
}

/// Generates requests until one is denied: times between them in nanoseconds, and costs.
fn any_requests() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![0..3_000_u64, 0..3_000_000_u64, 0..2_000_000_000_u64];
    proptest::collection::vec((gap, 1..4_u64), 1..40)
}

fn any_algorithm() -> impl Strategy<Value = Algorithm> {
    prop_oneof![
        Just(Algorithm::Log),
        Just(Algorithm::LogCapped { bytes_max: 64 }),
        Just(Algorithm::Counter),
        Just(Algorithm::Segments { count: 6 }),
        Just(Algorithm::Gcra),
        Just(Algorithm::Fixed),
    ]
}

/// Runs requests and returns the first denial, its cost and its time.
fn first_denial(
    limiter: &Limiter,
    clock: &ManualClock,
    requests: &[(u64, u64)],
    grain: u64,
) -> Option<(HeaderMap, Cost, Duration)> {
    let mut now = EPOCH;
    for (gap, units) in requests {
        now += Duration::from_nanos(gap / grain * grain);
        clock.set(now);
        let cost = Cost::new(*units).unwrap();
        let decision = limiter.check_cost("alice", cost);
        let headers = fields(limiter, &decision);
        if headers.contains_key("retry-after") {
            return Some((headers, cost, now));
        }
    }
    None
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn whole_seconds_are_neither_early_nor_late(
        limit in 1..8_u64,
        window in prop_oneof![1..12_000_u64, (1..12_u64).prop_map(|seconds| seconds * 1000)],
        algorithm in any_algorithm(),
        requests in any_requests(),
        on_ticks: bool,
    ) {
        let clock = ManualClock::new(EPOCH);
        let window = Duration::from_millis(window);
        let limiter = limiter(Quota::new(limit, window).unwrap(), algorithm, &clock);
        let grain = if on_ticks { 1_000_000 } else { 1 };
        let Some((headers, cost, now)) = first_denial(&limiter, &clock, &requests, grain) else {
            return Ok(());
        };
        let seconds = number(&headers, "retry-after");
        let wait = Duration::from_secs(seconds);
        if !matches!(algorithm, Algorithm::Segments { .. } | Algorithm::Counter) {
            prop_assert!(seconds <= ceil(window), "{seconds} s of {window:?}");
        }

        // One second less is too early.
        clock.set((now + wait).checked_sub(SECOND).unwrap());
        let is_early = seconds > 1 && limiter.check_cost("alice", cost).is_allowed();
        prop_assert!(!is_early, "{seconds} s is late");

        // On whole ticks nothing is rounded, so no compensation is needed.
        clock.set(now + wait + if on_ticks { Duration::ZERO } else { ON_THE_WAY });
        prop_assert!(limiter.check_cost("alice", cost).is_allowed(), "{seconds} s is early");
    }
}
