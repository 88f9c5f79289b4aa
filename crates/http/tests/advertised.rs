//! Reading fields: the forms that this crate writes, those of other servers, and arbitrary input.
//!
//! What could go wrong: a wait that is shorter than the server wants, a wait so long that a client
//! never returns, one quota read as two, a panic on input from a server.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderName, HeaderValue};
use proptest::prelude::*;
use slidegate::{Decision, Outcome, Policy, Quota, QuotaDecision};
use slidegate_http::{AdvertisedLimits, AdvertisedQuota, Fields, Form, PolicyDecision, Reset};

/// Sun, 15 Nov 2026 21:26:40 GMT.
const NOW: u64 = 1_794_778_000;

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(NOW)
}

fn limits(lines: &[(&str, &str)]) -> AdvertisedLimits {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
        headers.append(name, HeaderValue::from_str(value).unwrap());
    }
    AdvertisedLimits::read(&headers, now())
}

/// Name, limit, remaining units, reset and window of a quota, in seconds.
type Parts<'a> = (Option<&'a str>, Option<u64>, Option<u64>, Option<u64>, Option<u64>);

fn parts(quota: &AdvertisedQuota) -> Parts<'_> {
    let seconds = |duration: Duration| duration.as_secs();
    let (reset, window) = (quota.reset_after().map(seconds), quota.window().map(seconds));
    (quota.name(), quota.limit(), quota.remaining(), reset, window)
}

fn all(read: &AdvertisedLimits) -> Vec<Parts<'_>> {
    read.quotas().iter().map(parts).collect()
}

#[test]
fn lists_and_their_policies() {
    let read = limits(&[
        ("RateLimit-Policy", r#""burst";q=100;w=60;pk=:cHM=:,"daily";q=1000;w=86400"#),
        ("RateLimit", r#""burst"; r=12; t=7; acme-x=?1"#),
        ("RateLimit", r#""daily";r=930;t=3600"#),
    ]);
    assert_eq!(
        all(&read),
        [
            (Some("burst"), Some(100), Some(12), Some(7), Some(60)),
            (Some("daily"), Some(1000), Some(930), Some(3600), Some(86_400)),
        ]
    );
    // The draft has examples with tokens, and with a member without `r`.
    let read = limits(&[("ratelimit-policy", "quota;q=10"), ("ratelimit", "quota;t=1")]);
    assert_eq!(all(&read), [(Some("quota"), Some(10), None, Some(1), None)]);
    // A policy without a status.
    let read = limits(&[
        ("ratelimit-policy", r#""hour";q=1000;w=3600, "day";q=5000;w=86400"#),
        ("ratelimit", r#""day";r=100;t=36000"#),
    ]);
    assert_eq!(
        all(&read),
        [
            (Some("day"), Some(5000), Some(100), Some(36_000), Some(86_400)),
            (Some("hour"), Some(1000), None, None, Some(3600)),
        ]
    );
}

#[test]
fn older_drafts() {
    let policy = ("ratelimit-policy", "10;w=1, 5000;w=86400;comment=\"a, b\"");
    let expected = [
        (None, Some(5000), Some(100), Some(36), Some(86_400)),
        (None, Some(10), None, None, Some(1)),
    ];
    assert_eq!(
        all(&limits(&[policy, ("ratelimit", "limit=5000, remaining=100, reset=36")])),
        expected
    );
    let triple = [
        policy,
        ("ratelimit-limit", "5000"),
        ("ratelimit-remaining", "100"),
        ("ratelimit-reset", "36"),
    ];
    assert_eq!(all(&limits(&triple)), expected);
    // Two windows have the same limit, so the window is ambiguous.
    let read = limits(&[
        ("ratelimit-policy", "10;w=1, 10;w=60"),
        ("ratelimit", "limit=10, remaining=1, reset=7"),
    ]);
    assert_eq!(all(&read)[0], (None, Some(10), Some(1), Some(7), None));
    assert_eq!(read.quotas().len(), 3);
}

#[test]
fn reads_fields_of_other_servers() {
    let expected = [(None, Some(60), Some(59), Some(30), None)];
    let moment = (NOW + 30).to_string();
    let millis = format!("{moment}000");
    let fraction = format!("{moment}.000");
    for (limit, remaining, reset) in [
        ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"),
        ("X-Rate-Limit-Limit", "X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"),
        ("RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"),
        ("X-RateLimit-Limit", "X-RateLimit-Remaining", "X-RateLimit-Reset-After"),
    ] {
        for value in ["30", "30.0", &moment, &millis, &fraction, "Sun, 15 Nov 2026 21:27:10 GMT"] {
            let read = limits(&[(limit, "60"), (remaining, "59"), (reset, value)]);
            assert_eq!(all(&read), expected, "{reset}: {value}");
        }
    }
    // Envoy.
    let read = limits(&[
        ("x-ratelimit-limit", r#"10, 10;w=1;name="per-ip", 1000;w=3600"#),
        ("x-ratelimit-remaining", "9"),
        ("x-ratelimit-reset", "1"),
    ]);
    assert_eq!(
        all(&read),
        [
            (Some("per-ip"), Some(10), Some(9), Some(1), Some(1)),
            (None, Some(1000), None, None, Some(3600)),
        ]
    );
    // Seconds from now, together with a point in time.
    let read = limits(&[("x-ratelimit-reset", &moment), ("x-ratelimit-reset-after", "29.5")]);
    assert_eq!(read.quotas()[0].reset_after(), Some(Duration::from_millis(29_500)));
}

// A quota in two forms is one quota.
#[test]
fn first_family_with_a_number_is_used() {
    let x = [("x-ratelimit-limit", "7"), ("x-ratelimit-remaining", "6")];
    let list = ("ratelimit", r#""a";r=1"#);
    assert_eq!(all(&limits(&[x[0], x[1], list])), [(Some("a"), None, Some(1), None, None)]);
    for malformed in ["", "\"a", "\"a\";r=-1", "\"a\";r=1.5", "\"a\";x=1", "5", "limit=?1", "r=1;;"]
    {
        let read = limits(&[x[0], x[1], ("ratelimit", malformed)]);
        assert_eq!(all(&read), [(None, Some(7), Some(6), None, None)], "{malformed}");
    }
}

#[test]
fn several_lines_use_the_most_restrictive_value() {
    let read = limits(&[
        ("x-ratelimit-limit", "100"),
        ("x-ratelimit-limit", "50"),
        ("x-ratelimit-remaining", "3, 8"),
        ("x-ratelimit-reset", "5"),
        ("x-ratelimit-reset", "9, 7"),
        ("retry-after", "4"),
        ("retry-after", "soon"),
        ("retry-after", "6"),
    ]);
    assert_eq!(all(&read), [(None, Some(50), Some(3), Some(9), None)]);
    assert_eq!(read.retry_after(), Some(Duration::from_secs(6)));
}

#[test]
fn numbers_below_zero() {
    let remaining = ("x-ratelimit-remaining", "-3");
    let read = limits(&[("x-ratelimit-limit", "10"), remaining]);
    assert_eq!(all(&read), [(None, Some(10), Some(0), None, None)]);
    // "Unlimited" must not read as "used up".
    assert_eq!(limits(&[("x-ratelimit-limit", "-1"), remaining]).quotas(), []);
    assert_eq!(limits(&[("x-ratelimit-reset", "-9")]).wait(), Duration::ZERO);
    let zero = limits(&[("x-ratelimit-remaining", "-0")]);
    assert_eq!(zero.quotas()[0].remaining(), Some(0));
}

#[test]
fn retry_after_in_every_form() {
    for (text, seconds) in [
        ("7", Some(7)),
        ("0", Some(0)),
        ("-7", Some(0)),
        ("Sun, 15 Nov 2026 21:27:10 GMT", Some(30)),
        ("Sunday, 15-Nov-26 21:27:10 GMT", Some(30)),
        ("Sun Nov 15 21:27:10 2026", Some(30)),
        ("Sun, 06 Nov 1994 08:49:37 GMT", Some(0)),
        ("1794778030", Some(30)),
        ("99999999999999999999999999", Some(AdvertisedLimits::WAIT_MAX.as_secs())),
        ("999999999", Some(AdvertisedLimits::WAIT_MAX.as_secs())),
        ("Fri, 31 Dec 9999 23:59:59 GMT", Some(AdvertisedLimits::WAIT_MAX.as_secs())),
        ("soon", None),
        ("", None),
        ("7 s", None),
        ("2026-11-15T21:27:10Z", None),
    ] {
        let read = limits(&[("retry-after", text)]).retry_after().map(|after| after.as_secs());
        assert_eq!(read, seconds, "{text}");
    }
}

#[test]
fn wait_prefers_retry_after_to_the_quotas() {
    let list = ("ratelimit", r#""a";r=0;t=7, "b";r=0;t=9, "c";r=1;t=99"#);
    assert_eq!(limits(&[list]).wait(), Duration::from_secs(9));
    assert_eq!(limits(&[list, ("retry-after", "3")]).wait(), Duration::from_secs(3));
    assert_eq!(limits(&[]).wait(), Duration::ZERO);
    assert_eq!(limits(&[("ratelimit", r#""a";r=0"#)]).wait(), Duration::ZERO);
}

#[test]
fn cached_response_has_no_quotas() {
    let fields = [("ratelimit", r#""a";r=0;t=7"#), ("retry-after", "3")];
    assert_eq!(limits(&[fields[0], fields[1], ("age", "0")]).quotas().len(), 1);
    let cached = limits(&[fields[0], fields[1], ("age", "12")]);
    assert_eq!((cached.quotas().len(), cached.wait()), (0, Duration::from_secs(3)));
}

#[test]
fn reading_is_bounded() {
    let many = (0..1000).map(|number| format!("\"{number}\";r=1")).collect::<Vec<_>>();
    assert_eq!(limits(&[("ratelimit", &many[..600].join(","))]).quotas().len(), 64);
    let policies = (0..300).map(|number| format!("{number};w=9")).collect::<Vec<_>>().join(",");
    assert_eq!(limits(&[("ratelimit-policy", &policies)]).quotas().len(), 64);
    // A field longer than 8 KiB counts as malformed.
    assert_eq!(limits(&[("ratelimit", &many.join(","))]).quotas().len(), 0);
    let window = limits(&[("ratelimit-policy", "1;w=999999999999999")]);
    assert_eq!(window.quotas()[0].window(), Some(AdvertisedLimits::WAIT_MAX));
    assert_eq!(limits(&[("ratelimit-policy", "1;w=0")]).quotas()[0].window(), None);
}

#[test]
fn reads_the_date_of_the_server() {
    let mut headers = HeaderMap::new();
    assert_eq!(AdvertisedLimits::date(&headers, now()), None);
    headers.insert("date", "Sun, 15 Nov 2026 21:26:40 GMT".parse().unwrap());
    assert_eq!(AdvertisedLimits::date(&headers, SystemTime::UNIX_EPOCH), Some(now()));
}

fn policies() -> impl Strategy<Value = Vec<(Policy, Decision)>> {
    let quota = (1..=(1_u64 << 40), 1..=400_000_000_u64, any::<u64>(), 0..=400_000_000_u64);
    let policy = ("[a-z]{1,3}", proptest::collection::vec(quota, 1..4), any::<bool>());
    let decisions = policy.prop_map(|(name, quotas, allow)| {
        let window = |millis| Duration::from_millis(millis);
        let policy = Policy::builder(&name)
            .quotas(quotas.iter().map(|quota| Quota::new(quota.0, window(quota.1)).unwrap()))
            .build()
            .unwrap();
        let standings: Vec<_> = quotas
            .iter()
            .map(|(limit, _, remaining, reset)| {
                let remaining = remaining % (limit + 1);
                QuotaDecision::new(*limit, remaining, window(*reset).into(), window(*reset))
            })
            .collect();
        let outcome = if allow { Outcome::Allow } else { Outcome::Deny };
        (policy, Decision::new(outcome, &standings, None))
    });
    proptest::collection::vec(decisions, 1..4)
}

fn up(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis().div_ceil(1000)).unwrap()
}

/// Returns limit, remaining units, reset and window of every quota, in whole seconds.
fn expected(decisions: &[(Policy, Decision)]) -> Vec<[u64; 4]> {
    let mut all = Vec::new();
    for (policy, decision) in decisions {
        for (quota, standing) in policy.quotas().iter().zip(decision.quotas()) {
            let (reset, window) = (up(standing.reset_after()), up(quota.window()));
            all.push([standing.limit(), standing.remaining(), reset, window]);
        }
    }
    all
}

fn written(fields: Fields, decisions: &[(Policy, Decision)]) -> HeaderMap {
    let decisions: Vec<_> = decisions.iter().map(|(p, d)| PolicyDecision::new(p, d)).collect();
    let mut headers = HeaderMap::new();
    fields.write(&decisions, now(), &mut headers);
    headers
}

proptest! {
    #[test]
    fn lists_round_trip(decisions in policies()) {
        let read = AdvertisedLimits::read(&written(Fields::new(), &decisions), now());
        let read: Vec<_> = read
            .quotas()
            .iter()
            .map(|quota| {
                let (_, limit, remaining, reset, window) = parts(quota);
                [limit, remaining, reset, window].map(Option::unwrap)
            })
            .collect();
        prop_assert_eq!(read, expected(&decisions));
    }

    #[test]
    fn other_forms_round_trip_the_tightest_quota(
        decisions in policies(),
        fields in prop_oneof![
            Just(Fields::none().ratelimit(Form::Dictionary)),
            Just(Fields::none().ratelimit(Form::Triple)),
            Just(Fields::none().x_ratelimit(Reset::Delta)),
            Just(Fields::none().x_ratelimit(Reset::Epoch)),
        ],
    ) {
        let read = AdvertisedLimits::read(&written(fields, &decisions), now());
        let expected = expected(&decisions);
        let first = &read.quotas()[0];
        let fewest = expected.iter().map(|quota| quota[1]).min();
        prop_assert_eq!(first.remaining(), fewest);
        let reset = first.reset_after().unwrap().as_secs();
        let is_one = |quota: &[u64; 4]| {
            Some(quota[0]) == first.limit() && Some(quota[1]) == fewest && quota[2] == reset
        };
        prop_assert!(expected.iter().any(is_one), "{:?} of {:?}", first, expected);
        // Every policy is present, alone or with the quota that has a status.
        let policies = written(fields, &decisions).contains_key("ratelimit-policy");
        for [limit, _, _, window] in expected.into_iter().filter(|_| policies) {
            let window = Some(Duration::from_secs(window));
            let found = |quota: &AdvertisedQuota| {
                quota.limit() == Some(limit) && quota.window() == window
            };
            prop_assert!(read.quotas().iter().any(found));
        }
    }

    #[test]
    fn retry_after_round_trips(decisions in policies()) {
        let denied = decisions.iter().filter(|(_, decision)| !decision.is_allowed());
        let longest = denied.map(|(_, decision)| up(decision.retry_after().duration().unwrap()).max(1)).max();
        let fields = Fields::none().retry_after(true);
        let read = AdvertisedLimits::read(&written(fields, &decisions), now());
        prop_assert_eq!(read.retry_after().map(|after| after.as_secs()), longest);
    }

    #[test]
    fn no_server_input_panics(
        lines in proptest::collection::vec((0..NAMES.len(), any_value()), 0..8),
        seconds in any::<u32>(),
    ) {
        let mut headers = HeaderMap::new();
        for (name, value) in lines {
            if let Ok(value) = HeaderValue::from_bytes(&value) {
                headers.append(NAMES[name], value);
            }
        }
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds.into());
        let read = AdvertisedLimits::read(&headers, now);
        let _ = AdvertisedLimits::date(&headers, now);
        prop_assert!(read.wait() <= AdvertisedLimits::WAIT_MAX);
        for quota in read.quotas() {
            prop_assert!(quota.reset_after() <= Some(AdvertisedLimits::WAIT_MAX));
            prop_assert!(quota.window() <= Some(AdvertisedLimits::WAIT_MAX));
        }
    }
}

const NAMES: [&str; 12] = [
    "ratelimit",
    "ratelimit-policy",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "x-ratelimit-reset-after",
    "x-rate-limit-reset",
    "retry-after",
    "date",
];

fn any_value() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..40),
        "[-+]?[0-9]{0,30}(\\.[0-9]{0,12})?".prop_map(String::into_bytes),
        "(\"[a-z]\"|[a-z]|[0-9]{1,16})(;[qrtw]=-?[0-9]{1,16}){0,3}(, .{0,9})?"
            .prop_map(String::into_bytes),
        "(limit|remaining|reset)=[0-9]{1,16}".prop_map(String::into_bytes),
        "[MS][ou]n,? [0-9]{1,2} (Jan|Feb) [0-9]{1,5} [0-9]{2}:[0-9]{2}:[0-9]{2} GMT"
            .prop_map(String::into_bytes),
    ]
}
