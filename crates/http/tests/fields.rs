//! Written fields: the values of each form, and that each is a valid structured field.
//!
//! What could go wrong: a client that returns before it is allowed, a field that parsers reject,
//! two members with one name, numbers above the maximum of a structured field.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use http::HeaderMap;
use proptest::prelude::*;
use sfv::{BareItem, Dictionary, Item, List, ListEntry, Parser};
use slidegate::{
    Algorithm, Cost, Decision, DegradedReason, FailureMode, Limiter, ManualClock, Mode, Outcome,
    Policy, Quota, QuotaDecision, RetryAfter,
};
use slidegate_http::{
    AdvertisedLimits, Fields, Form, PolicyDecision, PolicyFields, QuotaUnit, Reset,
};

const NOW: Duration = Duration::from_millis(1_700_000_000_250);

fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + NOW
}

fn written(fields: Fields, decisions: &[PolicyDecision<'_>]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    fields.write(decisions, now(), &mut headers);
    headers
}

/// Returns all fields, in order, as on the wire.
fn wire(fields: Fields, decisions: &[PolicyDecision<'_>]) -> Vec<String> {
    let pairs = fields.pairs(decisions, now());
    pairs.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect()
}

fn two_quotas() -> Policy {
    Policy::builder("api")
        .quota(Quota::per_second(10))
        .quota(Quota::per_hour(1000))
        .build()
        .unwrap()
}

/// `None` for never.
fn retry_after(wait: Option<Duration>) -> RetryAfter {
    wait.map_or(RetryAfter::Never, RetryAfter::from)
}

fn quota_status(limit: u64, remaining: u64, retry: Option<u64>, reset: u64) -> QuotaDecision {
    QuotaDecision::new(
        limit,
        remaining,
        retry_after(retry.map(Duration::from_millis)),
        Duration::from_millis(reset),
    )
}

#[test]
fn an_allowed_request_in_every_form() {
    let policy = two_quotas();
    let quotas = [quota_status(10, 9, Some(0), 1000), quota_status(1000, 400, Some(0), 59_001)];
    let decision = Decision::new(Outcome::Allow, &quotas, None);
    let decisions = [PolicyDecision::new(&policy, &decision)];

    assert_eq!(
        wire(Fields::new(), &decisions),
        [
            r#"ratelimit: "api-1s";r=9;t=1, "api-3600s";r=400;t=60"#,
            r#"ratelimit-policy: "api-1s";q=10;w=1, "api-3600s";q=1000;w=3600"#,
            "x-ratelimit-limit: 10",
            "x-ratelimit-remaining: 9",
            "x-ratelimit-reset: 1",
        ]
    );
    assert_eq!(
        wire(Fields::none().ratelimit(Form::Dictionary), &decisions),
        ["ratelimit: limit=10, remaining=9, reset=1", "ratelimit-policy: 10;w=1, 1000;w=3600"]
    );
    assert_eq!(
        wire(Fields::none().ratelimit(Form::Triple), &decisions),
        [
            "ratelimit-limit: 10",
            "ratelimit-remaining: 9",
            "ratelimit-reset: 1",
            "ratelimit-policy: 10;w=1, 1000;w=3600",
        ]
    );
    // 1700000000.25 and one second, rounded up once.
    let epoch = wire(Fields::none().x_ratelimit(Reset::Epoch), &decisions);
    assert_eq!(epoch[2], "x-ratelimit-reset: 1700000002");
    assert_eq!(wire(Fields::none(), &decisions), [""; 0]);
}

#[test]
fn denials_have_a_retry_time_and_are_not_cached() {
    let policy = two_quotas();
    let quotas = [quota_status(10, 0, Some(1), 1), quota_status(1000, 400, Some(0), 59_001)];
    let decision = Decision::new(Outcome::Deny, &quotas, None);
    let headers = written(Fields::new(), &[PolicyDecision::new(&policy, &decision)]);
    assert_eq!(headers["retry-after"], "1");
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-ratelimit-remaining"], "0");

    // The longest wait of all policies that denied. 7.001 seconds are rounded to eight.
    let other = [quota_status(10, 0, Some(7001), 1)];
    let later = Decision::new(Outcome::Deny, &other, None);
    let decisions = [PolicyDecision::new(&policy, &decision), PolicyDecision::new(&policy, &later)];
    assert_eq!(written(Fields::new(), &decisions)["retry-after"], "8");
    assert!(!written(Fields::new().retry_after(false), &decisions).contains_key("retry-after"));

    // Denied because of another policy, although its own quotas would allow it: never zero.
    let room = [quota_status(10, 5, Some(0), 0)];
    let decision = Decision::new(Outcome::Deny, &room, None);
    let headers = written(Fields::new(), &[PolicyDecision::new(&policy, &decision)]);
    assert_eq!(headers["retry-after"], "1");
}

// No number of seconds would be right, and a retry would be denied again.
#[test]
fn a_request_that_can_never_pass_has_no_retry_time() {
    let limiter = Limiter::new(Policy::new("api", Quota::per_minute(5)).unwrap()).unwrap();
    let decision = limiter.check_cost("alice", Cost::new(6).unwrap());
    let headers = written(Fields::new(), &[PolicyDecision::new(limiter.policy(), &decision)]);
    assert!(!headers.contains_key("retry-after"));
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["ratelimit"], r#""api";r=5;t=0"#);
}

#[test]
fn shadow_policies_are_omitted_by_default() {
    let shadow =
        Policy::builder("new").quota(Quota::per_minute(1)).mode(Mode::Shadow).build().unwrap();
    let limiter = Limiter::builder(shadow).clock(ManualClock::new(NOW)).build().unwrap();
    let _ = limiter.check("alice");
    let decision = limiter.check("alice");
    assert!(decision.is_shadow_denied());
    let decisions = [PolicyDecision::new(limiter.policy(), &decision)];
    assert_eq!(wire(Fields::new(), &decisions), [""; 0]);
    let headers = written(Fields::new().shadow(true), &decisions);
    assert_eq!(headers["ratelimit"], r#""new";r=0;t=60"#);
    assert!(!headers.contains_key("retry-after"), "no request was denied");
    assert!(!headers.contains_key("cache-control"), "no request was denied");
}

#[test]
fn writes_no_field_without_quotas() {
    // `RateLimit` must not be an empty list.
    let policy = Policy::builder("api")
        .quota(Quota::per_minute(1))
        .failure_mode(FailureMode::Deny)
        .build()
        .unwrap();
    let decision = Decision::new(Outcome::Deny, &[], None).into_degraded(DegradedReason::Other);
    let lines = wire(Fields::new(), &[PolicyDecision::new(&policy, &decision)]);
    assert_eq!(lines, ["retry-after: 1", "cache-control: no-store"]);
    assert_eq!(wire(Fields::new(), &[]), [""; 0]);
}

#[test]
fn a_tier_shows_its_own_windows() {
    let policy = Policy::new("api", Quota::per_minute(1)).unwrap();
    let gold = [Quota::per_hour(500)];
    let decision = Decision::new(Outcome::Allow, &[quota_status(500, 499, Some(0), 1)], None);
    let headers = written(Fields::new(), &[PolicyDecision::new(&policy, &decision).quotas(&gold)]);
    assert_eq!(headers["ratelimit-policy"], r#""api";q=500;w=3600"#);
}

#[test]
fn replaces_existing_fields() {
    let limiter = Limiter::new(Policy::new("api", Quota::per_minute(5)).unwrap()).unwrap();
    let decision = limiter.check("alice");
    let mut headers = HeaderMap::new();
    headers.append("ratelimit", "\"old\";r=1".parse().unwrap());
    headers.append("ratelimit", "\"older\";r=1".parse().unwrap());
    Fields::new().write(&[PolicyDecision::new(limiter.policy(), &decision)], now(), &mut headers);
    assert_eq!(headers.get_all("ratelimit").iter().count(), 1);
}

// The draft: `Retry-After` should not be earlier than `t`. These decisions are real ones.
#[test]
fn retry_after_is_not_earlier_than_the_reset_of_a_denying_quota() {
    for algorithm in [
        Algorithm::Log,
        Algorithm::LogCapped { bytes_max: 64 },
        Algorithm::Counter,
        Algorithm::Segments { count: 6 },
        Algorithm::Gcra,
        Algorithm::Fixed,
    ] {
        let clock = ManualClock::new(NOW);
        let policy = Policy::builder("api").quota(Quota::per_minute(20)).algorithm(algorithm);
        let limiter =
            Limiter::builder(policy.build().unwrap()).clock(clock.clone()).build().unwrap();
        let mut denials = 0;
        for step in 0..500_u64 {
            clock.advance(Duration::from_millis(step * 37 % 4001));
            let decision = limiter.check_cost("alice", Cost::new(1 + step % 7).unwrap());
            let headers =
                written(Fields::new(), &[PolicyDecision::new(limiter.policy(), &decision)]);
            if let Some(after) = headers.get("retry-after") {
                denials += 1;
                let after: u64 = after.to_str().unwrap().parse().unwrap();
                let reset: u64 = headers["x-ratelimit-reset"].to_str().unwrap().parse().unwrap();
                assert!(after >= reset, "{algorithm:?}: {after} < {reset}");
            }
        }
        assert!(denials > 50, "{algorithm:?}: {denials}");
    }
}

fn any_quota() -> impl Strategy<Value = Quota> {
    let limit = prop_oneof![1..=1000_u64, 1..=(1_u64 << 53) - 1];
    let window = prop_oneof![1..=4000_u64, 1..=316_000_000_000_u64];
    (limit, window)
        .prop_map(|(limit, millis)| Quota::new(limit, Duration::from_millis(millis)).unwrap())
}

fn any_policy() -> impl Strategy<Value = Policy> {
    let name = prop_oneof!["[a-c]", "[a-z](-60s|-2)?", "[a-zA-Z][a-zA-Z0-9_.:/*-]{0,63}"];
    (name, proptest::collection::vec(any_quota(), 1..=8))
        .prop_map(|(name, quotas)| Policy::builder(&name).quotas(quotas).build().unwrap())
}

fn any_standing() -> impl Strategy<Value = QuotaDecision> {
    let duration = || prop_oneof![0..=100_000_u64, any::<u64>()].prop_map(Duration::from_millis);
    let count = || prop_oneof![0..=100_u64, any::<u64>()];
    (count(), count(), proptest::option::of(duration()), duration()).prop_map(
        |(limit, remaining, retry, reset)| {
            QuotaDecision::new(limit, remaining, retry_after(retry), reset)
        },
    )
}

/// Generates any decision, including ones that do not match their policy.
fn any_decisions() -> impl Strategy<Value = Vec<(Policy, Decision)>> {
    let outcome = prop_oneof![Just(Outcome::Allow), Just(Outcome::Deny)];
    let decision = (outcome, proptest::collection::vec(any_standing(), 0..=8))
        .prop_map(|(outcome, quotas)| Decision::new(outcome, &quotas, None));
    proptest::collection::vec((any_policy(), decision), 0..6)
}

fn names(list: &List) -> Vec<&str> {
    let mut names = Vec::new();
    for entry in list {
        if let ListEntry::Item(Item { bare_item: BareItem::String(name), .. }) = entry {
            names.push(name.as_str());
        }
    }
    names
}

proptest! {
    #[test]
    fn every_field_is_a_structured_field(
        decisions in any_decisions(),
        form in prop_oneof![Just(Form::List), Just(Form::Dictionary), Just(Form::Triple)],
    ) {
        let decisions: Vec<_> = decisions.iter().map(|(p, d)| PolicyDecision::new(p, d)).collect();
        let headers = written(Fields::new().ratelimit(form), &decisions);
        let denied = decisions.iter().any(PolicyDecision::is_denied);
        prop_assert_eq!(headers.contains_key("cache-control"), denied);
        for (name, value) in &headers {
            let text = value.to_str().unwrap();
            match (name.as_str(), form) {
                ("ratelimit" | "ratelimit-policy", Form::List) => {
                    let list: List = Parser::new(text).parse().unwrap();
                    prop_assert!(!list.is_empty());
                    let names = names(&list);
                    prop_assert_eq!(names.len(), list.len());
                    let distinct: HashSet<_> = names.iter().collect();
                    prop_assert_eq!(distinct.len(), names.len(), "a name occurs twice: {}", text);
                }
                ("ratelimit", _) => {
                    let dictionary: Dictionary = Parser::new(text).parse().unwrap();
                    prop_assert_eq!(dictionary.len(), 3);
                }
                ("ratelimit-policy", _) => {
                    let list: List = Parser::new(text).parse().unwrap();
                    prop_assert!(!list.is_empty());
                }
                ("ratelimit-limit" | "ratelimit-remaining" | "ratelimit-reset", _) => {
                    let item: Item = Parser::new(text).parse().unwrap();
                    prop_assert!(matches!(item.bare_item, BareItem::Integer(_)));
                }
                ("retry-after", _) => prop_assert!(text.parse::<u64>().unwrap() >= 1),
                ("cache-control", _) => prop_assert_eq!(text, "no-store"),
                _ => prop_assert!(text.parse::<u64>().is_ok()),
            }
        }
    }
}

proptest! {
    // Prepared fields must have the same values as fields written each time.
    #[test]
    fn prepared_fields_equal_written_fields(
        limit in 1..=1_000_000_000u64,
        left in 0..=1_000_000_000u64,
        reset in prop_oneof![0..120_000u64, 0..1_000_000_000_000_000u64],
        lists: bool,
        x_ratelimit in prop_oneof![Just(None), Just(Some(Reset::Delta)), Just(Some(Reset::Epoch))],
        name in "[a-z][a-z0-9_.:/*-]{0,63}",
    ) {
        let fields = Fields::none().ratelimit(lists.then_some(Form::List)).x_ratelimit(x_ratelimit);
        let policy = Policy::new(&name, Quota::new(limit, Duration::from_secs(60)).unwrap()).unwrap();
        let quota = quota_status(limit, left.min(limit), Some(0), reset);
        let decision = Decision::new(Outcome::Allow, &[quota], None);
        let expected = written(fields, &[PolicyDecision::new(&policy, &decision)]);

        let prepared = PolicyFields::new(fields, &policy).unwrap();
        let mut headers = HeaderMap::new();
        prop_assert!(prepared.write(&quota, now(), &mut headers));
        prop_assert!(headers.iter().eq(expected.iter()), "{:?} is not {:?}", headers, expected);

        // A quota other than that of the policy, as of a tier, is not written.
        let mut headers = HeaderMap::new();
        let other = quota_status(limit + 1, left.min(limit), Some(0), reset);
        prop_assert!(!prepared.write(&other, now(), &mut headers));
        prop_assert!(headers.is_empty());
    }
}

#[test]
fn unsupported_policies_are_not_prepared() {
    let minute = Quota::per_minute(10);
    let one = Policy::new("api", minute).unwrap();
    let shadow = Policy::builder("api").quota(minute).mode(Mode::Shadow).build().unwrap();
    assert!(PolicyFields::new(Fields::new(), &one).is_some());
    assert!(PolicyFields::new(Fields::new(), &two_quotas()).is_none());
    assert!(PolicyFields::new(Fields::new(), &shadow).is_none());
    assert!(PolicyFields::new(Fields::new().shadow(true), &shadow).is_none());
    for form in [Form::Dictionary, Form::Triple] {
        assert!(PolicyFields::new(Fields::new().ratelimit(form), &one).is_none());
    }
}

#[test]
fn units_and_partition_keys_are_parameters_of_lists() {
    let policy = two_quotas();
    let quotas = [quota_status(10, 9, Some(0), 1000), quota_status(1000, 400, Some(0), 59_001)];
    let decision = Decision::new(Outcome::Allow, &quotas, None);
    let (tokens, bytes) = (QuotaUnit::new("tokens").unwrap(), QuotaUnit::CONTENT_BYTES);
    let plain = PolicyDecision::new(&policy, &decision);
    let lists =
        |decision: PolicyDecision<'_>| wire(Fields::none().ratelimit(Form::List), &[decision]);
    assert_eq!(
        lists(plain.unit(&tokens).partition_key(b"alice")),
        [
            r#"ratelimit: "api-1s";r=9;t=1;pk=:YWxpY2U=:, "api-3600s";r=400;t=60;pk=:YWxpY2U=:"#,
            concat!(
                r#"ratelimit-policy: "api-1s";q=10;qu="tokens";w=1;pk=:YWxpY2U=:, "#,
                r#""api-3600s";q=1000;qu="tokens";w=3600;pk=:YWxpY2U=:"#
            ),
        ]
    );
    assert!(lists(plain.unit(&bytes))[1].contains(r#";q=10;qu="content-bytes";w=1,"#));
    // The default of the draft.
    assert_eq!(lists(plain.unit(&QuotaUnit::REQUESTS)), lists(plain));
    // Earlier drafts have neither.
    let earlier = plain.unit(&tokens).partition_key(b"alice");
    assert_eq!(
        wire(Fields::none().ratelimit(Form::Dictionary), &[earlier]),
        wire(Fields::none().ratelimit(Form::Dictionary), &[plain])
    );
}

// A limit of zero: `q=0` in every form, no time at which a retry would help, and `AdvertisedLimits`
// reads the same.
#[test]
fn a_ban_is_a_quota_of_zero() {
    for quotas in [&[Quota::per_minute(0)][..], &[Quota::per_hour(9), Quota::per_minute(0)]] {
        let policy = Policy::builder("ban").quotas(quotas.iter().copied()).build().unwrap();
        let limiter = Limiter::new(policy.clone()).unwrap();
        let banned = limiter.check("alice");
        let decisions = [PolicyDecision::new(&policy, &banned)];
        let name = if quotas.len() == 1 { "ban" } else { "ban-60s" };
        let headers = written(Fields::new(), &decisions);
        let text = |name: &str| headers[name].to_str().unwrap();
        assert!(text("ratelimit").ends_with(&format!(r#""{name}";r=0;t=0"#)), "{headers:?}");
        assert!(
            text("ratelimit-policy").ends_with(&format!(r#""{name}";q=0;w=60"#)),
            "{headers:?}"
        );
        assert_eq!((text("x-ratelimit-limit"), text("x-ratelimit-remaining")), ("0", "0"));
        assert_eq!((text("x-ratelimit-reset"), text("cache-control")), ("0", "no-store"));
        assert!(!headers.contains_key("retry-after"), "{headers:?}");
        for field in ["ratelimit", "ratelimit-policy"] {
            assert!(Parser::new(text(field)).parse::<List>().is_ok(), "{headers:?}");
        }

        let limits = AdvertisedLimits::read(&headers, now());
        let read = limits.quotas().iter().find(|quota| quota.name() == Some(name)).unwrap();
        assert_eq!((read.limit(), read.remaining()), (Some(0), Some(0)));
        assert_eq!(read.window(), Some(Duration::from_secs(60)));

        let dictionary = written(Fields::none().ratelimit(Form::Dictionary), &decisions);
        assert_eq!(dictionary["ratelimit"], "limit=0, remaining=0, reset=0");
        let triple = written(Fields::none().ratelimit(Form::Triple), &decisions);
        assert_eq!(triple["ratelimit-limit"], "0");
        for headers in [dictionary, triple] {
            let policy = headers["ratelimit-policy"].to_str().unwrap();
            assert!(policy.ends_with("0;w=60"), "{headers:?}");
        }
    }
}

proptest! {
    // A client reads back exactly what was set.
    #[test]
    fn units_and_partition_keys_round_trip(
        unit in "[ !#-\\[\\]-~]{1,64}",
        key in proptest::collection::vec(any::<u8>(), 0..40),
    ) {
        let policy = Policy::new("api", Quota::per_minute(10)).unwrap();
        let decision = Decision::new(Outcome::Allow, &[quota_status(10, 9, Some(0), 1000)], None);
        let unit = QuotaUnit::new(unit).unwrap();
        let headers = written(
            Fields::new(),
            &[PolicyDecision::new(&policy, &decision).unit(&unit).partition_key(&key)],
        );
        let limits = AdvertisedLimits::read(&headers, now());
        let [quota] = limits.quotas() else { panic!("{limits:?}") };
        prop_assert_eq!(quota.unit(), Some(unit.as_str()));
        prop_assert_eq!(quota.partition_key(), Some(&key[..]));
        prop_assert_eq!(quota.window(), Some(Duration::from_secs(60)));
    }
}
