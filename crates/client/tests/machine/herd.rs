//! A thousand clients that were refused together do not return together, and none returns too
//! early.

use std::time::Duration;

use crate::driver::{Machine, START, seconds};
use slidegate_client::{Next, Random, Step};

const CLIENTS: u64 = 1000;

/// Returns when each client returns after a 429 with these fields at `START`.
fn returns(fields: &[(&str, &str)]) -> Vec<Duration> {
    let one = |seed| {
        let mut client = Machine::new();
        client.random = Random::from_seed(seed);
        let mut ticket = client.sent();
        assert_eq!(client.answer(&mut ticket, 429, fields), Next::Again);
        let wait = client.wait(&mut ticket);
        client.now = START + wait.saturating_sub(Duration::from_nanos(1));
        assert!(matches!(client.ask(&mut ticket), Step::Wait(_)), "a moment early");
        client.now = START + wait;
        assert_eq!(client.ask(&mut ticket), Step::Go);
        wait
    };
    (0..CLIENTS).map(one).collect()
}

/// Returns the maximum number of clients that return within any second.
fn peak(returns: &[Duration]) -> usize {
    let within = |from: &Duration| {
        returns.iter().filter(|at| (*from..*from + seconds(1)).contains(*at)).count()
    };
    returns.iter().map(within).max().unwrap()
}

// `max(server's time, jitter)` has no jitter if the server's time is longer: all 1000 would return
// at the same time.
#[test]
fn a_thousand_clients_return_spread_and_never_early() {
    let returns = returns(&[("retry-after", "60")]);
    assert!(returns.iter().all(|at| *at >= seconds(60)), "{:?}", returns.iter().min());
    assert!(returns.iter().all(|at| *at <= seconds(65)), "{:?}", returns.iter().max());
    let mean = usize::try_from(CLIENTS).unwrap() / 5;
    assert!(peak(&returns) <= 2 * mean, "{} in a second, {mean} on average", peak(&returns));
}

#[test]
fn dates_and_used_up_quotas_are_spread_too() {
    let date = ("date", "Tue, 14 Nov 2023 22:13:20 GMT");
    let forms: [&[(&str, &str)]; 3] = [
        &[date, ("retry-after", "Tue, 14 Nov 2023 22:14:20 GMT")],
        &[("ratelimit", r#""api";r=0;t=60"#)],
        &[date, ("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "1700000060")],
    ];
    for fields in forms {
        let returns = returns(fields);
        assert!(returns.iter().all(|at| (seconds(60)..=seconds(65)).contains(at)), "{fields:?}");
        assert!(peak(&returns) <= 400, "{fields:?}: {}", peak(&returns));
    }
}

#[test]
fn without_a_time_the_backoff_is_fully_random() {
    let returns = returns(&[]);
    assert!(returns.iter().all(|at| *at <= Duration::from_millis(500)));
    for tenth in 0..10 {
        let stretch = Duration::from_millis(tenth * 50)..Duration::from_millis(tenth * 50 + 50);
        let count = returns.iter().filter(|at| stretch.contains(*at)).count();
        assert!((50..200).contains(&count), "{count} in {stretch:?}");
    }
}
