//! Quotas learned from fields, and their effects.

use std::time::Duration;

use slidegate_client::{ErrorKind, Next, Settings, Step, Ticket};

use crate::driver::{Machine, START, millis, seconds};

/// Lets one request learn from `fields`, at the start.
fn learned(fields: &[(&str, &str)]) -> Machine {
    let mut client = Machine::new();
    let mut first = client.sent();
    client.answer(&mut first, 200, fields);
    client
}

/// Returns the requests that are sent immediately, without responses.
fn go_at_once(client: &mut Machine) -> Vec<Ticket> {
    let mut gone = Vec::new();
    for _ in 0..10_000 {
        let mut ticket = client.begin();
        if client.ask(&mut ticket) != Step::Go {
            client.pacing.end(&mut ticket);
            break;
        }
        gone.push(ticket);
    }
    gone
}

#[test]
fn respects_every_form() {
    let (date, reset) = (("date", "Tue, 14 Nov 2023 22:13:20 GMT"), "1700000060");
    // Ten per minute, and this was the first: nine are sent, then none for a minute.
    let forms: [&[(&str, &str)]; 9] = [
        &[("ratelimit-policy", r#""api";q=10;w=60"#), ("ratelimit", r#""api";r=9;t=60"#)],
        &[("ratelimit-policy", r#""api";q=10;w=60"#)],
        &[("ratelimit", r#""api";r=9;t=60"#)],
        &[("ratelimit", "limit=10, remaining=9, reset=60"), ("ratelimit-policy", "10;w=60")],
        &[("ratelimit", "limit=10, remaining=9, reset=60")],
        &[("ratelimit-limit", "10"), ("ratelimit-remaining", "9"), ("ratelimit-reset", "60")],
        &[("x-ratelimit-limit", "10"), ("x-ratelimit-remaining", "9"), ("x-ratelimit-reset", "60")],
        &[("x-rate-limit-remaining", "9"), date, ("x-rate-limit-reset", reset)],
        &[
            ("x-ratelimit-limit", "10, 10;w=60"),
            ("x-ratelimit-remaining", "9"),
            ("x-ratelimit-reset", "60"),
        ],
    ];
    for fields in forms {
        let mut client = learned(fields);
        assert_eq!(go_at_once(&mut client).len(), 9, "{fields:?}");
        let mut next = client.begin();
        let wait = client.wait(&mut next);
        assert!((seconds(60)..=millis(60_010)).contains(&wait), "{fields:?}: {wait:?}");
        client.advance(wait);
        assert_eq!(client.ask(&mut next), Step::Go, "{fields:?}");
    }
}

#[test]
fn does_not_pace_without_fields() {
    for fields in [&[][..], &[("ratelimit", "?"), ("x-ratelimit-limit", "many")]] {
        assert_eq!(go_at_once(&mut learned(fields)).len(), 10_000);
    }
    let mut client = Machine::with(Settings::builder().pacing(false));
    let mut first = client.sent();
    client.answer(&mut first, 200, &[("ratelimit", r#""api";r=1;t=60"#)]);
    assert_eq!(go_at_once(&mut client).len(), 10_000);
}

#[test]
fn reserves_a_twentieth_except_of_small_limits() {
    for (limit, expected) in [(1, 1), (10, 10), (19, 19), (20, 19), (100, 95), (1000, 950)] {
        let policy = format!(r#""api";q={limit};w=60"#);
        let mut client = learned(&[("ratelimit-policy", &policy)]);
        assert_eq!(go_at_once(&mut client).len() + 1, expected, "{limit}");
    }
}

// Without it, a thousand requests at the start would hit an unknown limit of ten.
#[test]
fn the_first_request_is_sent_alone() {
    let mut client = Machine::new();
    let mut first = client.sent();
    let mut others: Vec<Ticket> = (0..19).map(|_| client.begin()).collect();
    for other in &mut others {
        assert_eq!(client.wait(other), seconds(1));
    }
    client.advance(millis(30));
    let fields = [("ratelimit-policy", r#""api";q=10;w=60"#), ("ratelimit", r#""api";r=9;t=60"#)];
    client.answer(&mut first, 200, &fields);
    assert!(client.pacing.take_news(), "waiting requests must be notified");
    let steps: Vec<Step> = others.iter_mut().map(|other| client.ask(other)).collect();
    assert!(steps[..9].iter().all(|step| *step == Step::Go), "{steps:?}");
    assert!(steps[9..].iter().all(|step| matches!(step, Step::Wait(_))), "{steps:?}");
}

#[test]
fn a_slow_first_request_delays_others_for_a_second() {
    let mut client = Machine::new();
    let mut first = client.sent();
    let mut other = client.begin();
    assert_eq!(client.wait(&mut other), seconds(1));
    // Cancelled: the next one is the first.
    client.pacing.end(&mut first);
    assert!(client.pacing.take_news());
    assert_eq!(client.ask(&mut other), Step::Go);
    let mut third = client.begin();
    client.wait(&mut third);
    // Slow: after a second, no request waits for it.
    client.advance(seconds(1));
    assert_eq!(client.ask(&mut third), Step::Go);
}

#[test]
fn requests_are_served_in_order_and_cancelled_ones_leave() {
    let mut client = learned(&[("ratelimit-policy", r#""api";q=2;w=10"#)]);
    client.advance(seconds(4));
    let _second = client.sent();
    let mut waiting: Vec<Ticket> = (0..4).map(|_| client.begin()).collect();
    let waits: Vec<Duration> = waiting.iter_mut().map(|ticket| client.wait(ticket)).collect();
    assert_eq!(waits, [6, 10, 16, 20].map(seconds));
    // The ones behind the second move up when it leaves.
    let mut cancelled = waiting.remove(1);
    client.pacing.end(&mut cancelled);
    assert!(client.pacing.take_news(), "later requests must be notified");
    let waits: Vec<Duration> = waiting.iter_mut().map(|ticket| client.wait(ticket)).collect();
    assert_eq!(waits, [6, 10, 16].map(seconds));
    // The last request checks first when units are free, and must not overtake.
    client.advance(seconds(6));
    assert_eq!(client.wait(&mut waiting[2]), seconds(10));
    let mut new = client.begin();
    assert_eq!(client.wait(&mut new), seconds(14));
    assert_eq!(client.ask(&mut waiting[0]), Step::Go);
    client.advance(seconds(4));
    assert_eq!(client.ask(&mut waiting[1]), Step::Go);
}

#[test]
fn a_stalled_request_does_not_block_the_queue() {
    let mut client = learned(&[("ratelimit-policy", r#""api";q=1;w=10"#)]);
    let (mut asleep, mut awake) = (client.begin(), client.begin());
    assert_eq!([client.wait(&mut asleep), client.wait(&mut awake)], [10, 20].map(seconds));
    client.advance(millis(11_001));
    assert_eq!(client.ask(&mut awake), Step::Go);
}

#[test]
fn a_wait_past_the_deadline_fails_immediately() {
    let mut client = learned(&[("ratelimit-policy", r#""api";q=1;w=100"#)]);
    let (mut one, mut two, mut three) = (client.begin(), client.begin(), client.begin());
    assert_eq!(client.wait(&mut one), seconds(100));
    assert_eq!(client.refused(&mut two).kind(), ErrorKind::Deadline);
    client.pacing.end(&mut one);
    assert_eq!(client.wait(&mut three), seconds(100));
}

// Other clients use the same quota. Their units expire at the server's time, not a window from now.
#[test]
fn units_of_other_clients_count_until_the_reset() {
    let used_up =
        [("ratelimit-policy", r#""api";q=1000;w=3600"#), ("ratelimit", r#""api";r=0;t=100"#)];
    let mut client = learned(&used_up);
    let (mut probe, mut other) = (client.begin(), client.begin());
    assert_eq!(client.wait(&mut probe), seconds(100));
    client.wait(&mut other);
    client.advance(seconds(100));
    assert_eq!(client.ask(&mut probe), Step::Go);
    // One request at a time is a probe. The others wait for its response.
    assert_eq!(client.wait(&mut other), seconds(1));
    client.advance(millis(50));
    let freed =
        [("ratelimit-policy", r#""api";q=1000;w=3600"#), ("ratelimit", r#""api";r=200;t=10"#)];
    client.answer(&mut probe, 200, &freed);
    assert!(client.pacing.take_news());
    assert_eq!(client.ask(&mut other), Step::Go);
    let more = go_at_once(&mut client).len();
    assert!((140..=200).contains(&more), "{more}");
}

#[test]
fn a_probe_that_is_lost_is_followed_by_another() {
    let mut client = learned(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "5")]);
    let (mut probe, mut other, mut third) = (client.begin(), client.begin(), client.begin());
    assert_eq!(client.wait(&mut probe), seconds(5));
    client.advance(seconds(5));
    assert_eq!(client.ask(&mut probe), Step::Go);
    assert_eq!(client.wait(&mut other), seconds(1));
    client.pacing.end(&mut probe);
    assert!(client.pacing.take_news());
    assert_eq!(client.ask(&mut other), Step::Go);
    // Slow, but not lost.
    client.wait(&mut third);
    client.advance(seconds(1));
    assert_eq!(client.ask(&mut third), Step::Go);
}

#[test]
fn respects_all_of_several_quotas() {
    let mut client = learned(&[
        ("ratelimit-policy", r#""api-1s";q=5;w=1, "api-60s";q=12;w=60"#),
        ("ratelimit", r#""api-1s";r=4;t=1, "api-60s";r=11;t=60"#),
    ]);
    assert_eq!(go_at_once(&mut client).len(), 4);
    client.advance(seconds(1) + millis(2));
    assert_eq!(go_at_once(&mut client).len(), 5);
    client.advance(seconds(1) + millis(2));
    assert_eq!(go_at_once(&mut client).len(), 2);
    let mut next = client.begin();
    assert!(client.wait(&mut next) > seconds(57));
}

#[test]
fn an_omitted_quota_is_not_charged() {
    let search = [("ratelimit-policy", r#""search";q=3;w=60"#)];
    let other = [("ratelimit-policy", r#""other";q=100;w=60"#)];
    let mut client = learned(&search);
    for _ in 0..40 {
        let mut ticket = client.sent();
        client.answer(&mut ticket, 200, &other);
        client.pacing.end(&mut ticket);
    }
    assert_eq!(go_at_once(&mut client).len(), 2);
}

#[test]
fn follows_a_changed_limit() {
    let mut client = learned(&[("ratelimit-policy", r#""api";q=10;w=60"#)]);
    let mut ticket = client.sent();
    client.answer(&mut ticket, 200, &[("ratelimit-policy", r#""api";q=18;w=60"#)]);
    assert_eq!(go_at_once(&mut client).len(), 16);
    client.advance(seconds(61));
    let mut ticket = client.sent();
    client.answer(&mut ticket, 200, &[("ratelimit-policy", r#""api";q=4;w=60"#)]);
    assert_eq!(go_at_once(&mut client).len(), 3);
}

#[test]
fn forgets_quotas_that_are_no_longer_advertised() {
    let mut client = learned(&[("ratelimit", r#""api";r=0;t=30"#)]);
    client.advance(seconds(601));
    assert_eq!(go_at_once(&mut client).len(), 10_000);
    // But not before the server's time.
    let mut client = learned(&[("ratelimit", r#""api";r=0;t=7200"#)]);
    client.advance(seconds(7199));
    let mut early = client.begin();
    assert_eq!(client.wait(&mut early), seconds(1));
    assert_eq!(client.now, START + seconds(7199));
}

#[test]
fn absurd_quotas_neither_panic_nor_block() {
    let absurd: [&[(&str, &str)]; 6] = [
        &[("ratelimit-policy", r#""api";q=0;w=60"#)],
        &[("ratelimit-policy", r#""api";q=999999999999999;w=999999999999999"#)],
        &[("ratelimit", r#""api";r=999999999999999;t=999999999999999"#)],
        &[("x-ratelimit-limit", "18446744073709551615"), ("x-ratelimit-remaining", "-5")],
        &[("x-ratelimit-limit", "-1"), ("x-ratelimit-remaining", "-1")],
        &[("ratelimit-policy", r#""api";q=1;w=0"#), ("ratelimit", r#""api";r=1;t=-1"#)],
    ];
    for fields in absurd {
        let mut client = learned(fields);
        let mut ticket = client.begin();
        assert_eq!(client.ask(&mut ticket), Step::Go, "{fields:?}");
        assert_eq!(client.answer(&mut ticket, 200, fields), Next::Done);
    }
}
