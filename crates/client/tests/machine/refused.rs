//! The effects of a 429 or 503: waits, retries, and when there are none.

use std::time::Duration;

use crate::driver::{Machine, START, millis, seconds};
use slidegate_client::{ErrorKind, Next, Random, Repeat, Settings, Step};

#[test]
fn one_refusal_holds_back_all_requests_of_its_host() {
    for status in [429, 503] {
        let mut client = Machine::new();
        let mut first = client.sent();
        assert_eq!(client.answer(&mut first, status, &[("retry-after", "30")]), Next::Again);
        let mut other = client.begin();
        for ticket in [&mut first, &mut other] {
            let wait = client.wait(ticket);
            assert!((seconds(30)..=seconds(33)).contains(&wait), "{wait:?}");
            // Checked again, it gets the same time: jitter is drawn once.
            client.advance(seconds(1));
            assert_eq!(client.wait(ticket) + seconds(1), wait);
            client.now = START;
        }
        let mut elsewhere = client.begin_at("other.example.com");
        assert_eq!(client.ask(&mut elsewhere), Step::Go);
        client.advance(seconds(33));
        assert_eq!(client.ask(&mut other), Step::Go);
    }
}

#[test]
fn a_longer_hold_replaces_a_shorter_one() {
    let mut client = Machine::with(Settings::builder().learn_first(Duration::ZERO));
    let (mut one, mut two) = (client.sent(), client.sent());
    client.answer(&mut one, 429, &[("retry-after", "10")]);
    assert!(client.wait(&mut one) <= seconds(11));
    client.answer(&mut two, 429, &[("retry-after", "60")]);
    client.advance(seconds(11));
    assert!(client.wait(&mut one) >= seconds(49));
    // A shorter one does not shorten it.
    client.now = START + seconds(60);
    let mut three = client.begin();
    client.ask(&mut three);
    client.answer(&mut three, 429, &[("retry-after", "60")]);
    client.advance(seconds(1));
    let mut late = client.begin();
    assert!(client.wait(&mut late) >= seconds(59));
}

// Found by the random walks: a backoff after a second response once replaced the time of the first.
#[test]
fn a_backoff_does_not_shorten_a_hold() {
    let mut client = Machine::new();
    let mut ticket = client.sent();
    client.answer(&mut ticket, 429, &[("retry-after", "20")]);
    client.answer(&mut ticket, 429, &[]);
    assert!(client.wait(&mut ticket) >= seconds(20));
}

#[test]
fn a_date_is_measured_by_the_servers_clock() {
    let mut client = Machine::new();
    // This machine's clock says 2023, the server's is right.
    let fields = [
        ("date", "Sun, 15 Nov 2026 12:00:00 GMT"),
        ("retry-after", "Sun, 15 Nov 2026 12:00:40 GMT"),
    ];
    let mut ticket = client.sent();
    client.answer(&mut ticket, 429, &fields);
    let wait = client.wait(&mut ticket);
    assert!((seconds(40)..=seconds(44)).contains(&wait), "{wait:?}");
}

#[test]
fn a_503_without_a_time_delays_only_itself() {
    let mut client = Machine::with(Settings::builder().backoff(seconds(8), seconds(8)));
    let mut ticket = client.sent();
    assert_eq!(client.answer(&mut ticket, 503, &[]), Next::Again);
    assert!(client.wait(&mut ticket) <= seconds(8));
    let mut other = client.begin();
    assert_eq!(client.ask(&mut other), Step::Go);
}

// Negative, past and malformed times are ignored: the client must neither return immediately nor
// never.
#[test]
fn invalid_times_cause_a_backoff() {
    for value in ["-60", "0", "soon", "", "1e9", "Tue, 14 Nov 2000 22:13:20 GMT"] {
        let wait = |seed| {
            let mut client = Machine::new();
            client.random = Random::from_seed(seed);
            let mut ticket = client.sent();
            assert_eq!(client.answer(&mut ticket, 429, &[("retry-after", value)]), Next::Again);
            client.wait(&mut ticket)
        };
        let waits: Vec<Duration> = (0..200).map(wait).collect();
        assert!(waits.iter().all(|wait| *wait <= millis(500)), "{value:?}");
        assert!(waits.iter().any(|wait| *wait > millis(400)), "{value:?}");
    }
}

// A server's mistake must not make a program wait for years, nor may a program return too early.
#[test]
fn extreme_times_are_capped() {
    for value in ["86401", "999999999", "99999999999999999999999", "Fri, 31 Dec 9999 23:59:59 GMT"]
    {
        let mut client = Machine::new();
        let mut ticket = client.sent();
        assert_eq!(client.answer(&mut ticket, 429, &[("retry-after", value)]), Next::Done);
        let mut other = client.begin();
        let error = client.refused(&mut other);
        assert_eq!(error.kind(), ErrorKind::Deadline, "{value:?}");
        assert!(error.wait().unwrap() <= seconds(24 * 3600 + 5), "{value:?}: {error}");
        client.advance(seconds(24 * 3600 + 5));
        let mut later = client.begin();
        assert_eq!(client.ask(&mut later), Step::Go, "{value:?}");
    }
}

#[test]
fn attempts_are_bounded() {
    let mut client = Machine::with(Settings::builder().attempts_max(3));
    let mut ticket = client.sent();
    for attempt in 1..=3 {
        assert_eq!(ticket.attempts(), attempt);
        let next = client.answer(&mut ticket, 503, &[("retry-after", "1")]);
        assert_eq!(next, if attempt < 3 { Next::Again } else { Next::Done });
        if attempt < 3 {
            let wait = client.wait(&mut ticket);
            client.advance(wait);
            assert_eq!(client.ask(&mut ticket), Step::Go);
        }
    }
}

#[test]
fn backoff_doubles_up_to_thirty_seconds() {
    let settings = Settings::builder().attempts_max(100).deadline(seconds(36_000));
    let mut client = Machine::with(settings);
    let mut ticket = client.sent();
    let mut longest = Duration::ZERO;
    for attempt in 1..60 {
        assert_eq!(client.answer(&mut ticket, 503, &[]), Next::Again);
        let bound = millis(500 << (attempt - 1).min(20)).min(seconds(30));
        let wait = match client.ask(&mut ticket) {
            Step::Wait(wait) => wait,
            step => panic!("{step:?}"),
        };
        assert!(wait <= bound, "{wait:?} after {attempt}");
        longest = longest.max(wait);
        // The budget is separate: a minute gives ten.
        client.advance(wait.max(seconds(30)));
        assert_eq!(client.ask(&mut ticket), Step::Go);
    }
    assert!(longest > seconds(25), "{longest:?}");
}

#[test]
fn nothing_waits_past_the_deadline() {
    let mut client = Machine::with(Settings::builder().deadline(seconds(20)));
    let mut ticket = client.sent();
    let mut other = client.begin();
    // Too long for the first, so the response is returned. The other may not wait that long either.
    assert_eq!(client.answer(&mut ticket, 429, &[("retry-after", "21")]), Next::Done);
    let error = client.refused(&mut other);
    assert_eq!(error.kind(), ErrorKind::Deadline);
    assert!(error.wait().unwrap() >= seconds(21));
    assert!(error.to_string().contains("may wait 20s"), "{error}");
}

// An overloaded server must not be sent every request five times.
#[test]
fn retries_are_a_tenth_of_the_requests_and_a_floor() {
    let settings = Settings::builder().refusals(1_000_000, seconds(60)).budget(10, 10);
    let mut client = Machine::with(settings);
    let mut again = 0;
    for _ in 0..1000 {
        let mut ticket = client.sent();
        again += u32::from(client.answer(&mut ticket, 503, &[]) == Next::Again);
        client.pacing.end(&mut ticket);
    }
    assert_eq!(again, 110);
    assert_eq!(client.pacing.stats().sent, 1000);
}

#[test]
fn only_safe_requests_are_retried() {
    let cases = [
        (Repeat::Never, 429, Next::Done),
        (Repeat::Never, 503, Next::Done),
        (Repeat::Refused, 429, Next::Again),
        (Repeat::Refused, 503, Next::Done),
        (Repeat::Always, 429, Next::Again),
        (Repeat::Always, 503, Next::Again),
        (Repeat::Always, 500, Next::Done),
        (Repeat::Always, 200, Next::Done),
    ];
    for (repeat, status, expected) in cases {
        let mut client = Machine::new();
        let mut ticket = client.sent();
        let next = client.answer_with(&mut ticket, status, &[("retry-after", "1")], repeat);
        assert_eq!(next, expected, "{repeat:?} {status}");
    }
}

// Services block clients that continue after thousands of refusals, so a client must stop before.
#[test]
fn stops_sending_to_a_server_that_keeps_refusing() {
    let mut client = Machine::with(Settings::builder().refusals(3, seconds(600)));
    for refusal in 1..=3 {
        let mut ticket = client.begin();
        while let Step::Wait(wait) = client.ask(&mut ticket) {
            client.advance(wait);
        }
        let next = client.answer(&mut ticket, 429, &[("retry-after", "1")]);
        assert_eq!(next, if refusal < 3 { Next::Again } else { Next::Done });
        client.pacing.end(&mut ticket);
    }
    let stopped_at = client.now;
    let mut ticket = client.begin();
    let error = client.refused(&mut ticket);
    assert_eq!((error.kind(), error.wait()), (ErrorKind::Stopped, Some(seconds(600))));
    // A 503 does not count, nor does another host.
    let mut elsewhere = client.begin_at("other.example.com");
    assert_eq!(client.ask(&mut elsewhere), Step::Go);
    client.now = stopped_at + seconds(600);
    assert_eq!(client.ask(&mut ticket), Step::Go);
    assert_eq!(client.pacing.stats().refusals, 3);
}

#[test]
fn waiters_are_bounded() {
    let mut client = Machine::with(Settings::builder().waiters_max(2));
    let mut first = client.sent();
    client.answer(&mut first, 429, &[("retry-after", "9")]);
    let (mut one, mut two, mut three) = (client.begin(), client.begin(), client.begin());
    client.wait(&mut one);
    client.wait(&mut two);
    assert_eq!(client.refused(&mut three).kind(), ErrorKind::Waiters);
    client.wait(&mut one);
    // A freed place is given to the next request.
    client.pacing.end(&mut one);
    client.wait(&mut three);
    assert_eq!(client.pacing.stats().waiting, 2);
    client.advance(seconds(10));
    assert_eq!([client.ask(&mut two), client.ask(&mut three)], [Step::Go, Step::Go]);
    assert_eq!(client.pacing.stats().waiting, 0);
}

// Removing a hold to make space would send the next request too early.
#[test]
fn scopes_are_bounded_and_held_ones_stay() {
    let mut client = Machine::with(Settings::builder().scopes_max(3));
    let mut held = client.begin_at("held");
    client.ask(&mut held);
    client.answer(&mut held, 429, &[("retry-after", "100")]);
    client.pacing.end(&mut held);
    for host in 0..100 {
        client.advance(millis(1));
        let mut ticket = client.begin_at(&format!("host-{host}"));
        assert_eq!(client.ask(&mut ticket), Step::Go);
        client.answer(&mut ticket, 200, &[]);
        client.pacing.end(&mut ticket);
        assert!(client.pacing.stats().scopes <= 3);
    }
    let mut again = client.begin_at("held");
    assert!(client.wait(&mut again) >= seconds(99));
    // With requests in flight to the other two, there is no space for a fourth.
    let (mut one, mut two) = (client.begin_at("host-98"), client.begin_at("host-99"));
    assert_eq!([client.ask(&mut one), client.ask(&mut two)], [Step::Go, Step::Go]);
    let mut fourth = client.begin_at("fourth");
    assert_eq!(client.refused(&mut fourth).kind(), ErrorKind::Scopes);
    client.pacing.end(&mut one);
    assert_eq!(client.ask(&mut fourth), Step::Go);
}
