//! Policies and their parts as text and as serde values.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use serde_json::{Value, from_value, json, to_value};
use slidegate::{
    Algorithm, Cost, Error, FailureMode, Limiter, Mode, Policy, Quota, format_duration,
    parse_duration,
};

fn quota(limit: u64, millis: u64) -> Quota {
    Quota::new(limit, Duration::from_millis(millis)).unwrap()
}

#[test]
fn algorithms_are_formatted_and_parsed() {
    let names = ["log", "log_capped: 4096", "counter", "segments: 60", "gcra", "fixed"];
    for (algorithm, text) in Algorithm::ALL.into_iter().zip(names) {
        assert_eq!(algorithm.to_string(), text);
        assert_eq!(text.parse(), Ok(algorithm));
        assert!(text.starts_with(algorithm.name()));
    }
    assert_eq!(" segments:7 ".parse(), Ok(Algorithm::Segments { count: 7 }));
}

#[test]
fn invalid_algorithms_are_rejected_with_the_allowed_values() {
    for (text, message) in [
        (
            "sliding",
            "unknown algorithm \"sliding\": use log, log_capped, counter, segments, gcra or fixed",
        ),
        ("segments", "algorithm segments needs a number: use segments: 60, for example"),
        ("segments: x", "algorithm parameter \"x\" is not a whole number"),
        ("segments: 0", "segment count 0 is out of range: use 1 to 1024"),
        ("segments: 1000000", "segment count 1000000 is out of range: use 1 to 1024"),
        ("log_capped: 63", "bytes_max 63 is out of range: use 64 to 65536"),
        ("gcra: 5", "algorithm gcra has no number 5: use gcra alone"),
    ] {
        let error: Error = text.parse::<Algorithm>().unwrap_err();
        assert_eq!(error.to_string(), message);
    }
}

// Otherwise a limiter would deny waits that are possible, or lease units that it cannot record.
#[test]
fn algorithms_that_support_future_entries_let_callers_wait() {
    for algorithm in Algorithm::ALL {
        let builder = Policy::builder("api").quota(quota(1, 1000)).algorithm(algorithm);
        let limiter = Limiter::new(builder.build().unwrap()).unwrap();
        let waited = limiter.wait_timeout_blocking("alice", Cost::ONE, Duration::ZERO);
        assert_eq!(waited.is_ok(), algorithm.supports_future_entries(), "{algorithm}");
        assert_eq!(limiter.history("alice").is_ok(), algorithm.keeps_entries(), "{algorithm}");
    }
}

#[test]
fn modes_are_formatted_and_parsed() {
    for mode in Mode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
        assert_eq!(to_value(mode).unwrap(), json!(mode.name()));
        assert_eq!(from_value::<Mode>(json!(mode.name())).unwrap(), mode);
    }
    for mode in FailureMode::ALL {
        assert_eq!(mode.to_string().parse(), Ok(mode));
        assert_eq!(to_value(mode).unwrap(), json!(mode.name()));
        assert_eq!(from_value::<FailureMode>(json!(mode.name())).unwrap(), mode);
    }
    let error = "of".parse::<Mode>().unwrap_err();
    assert_eq!(error.to_string(), "unknown mode \"of\": use enforce or shadow");
    let error = "open".parse::<FailureMode>().unwrap_err();
    assert_eq!(error.to_string(), "unknown failure mode \"open\": use allow, deny or local");
}

#[test]
fn quotas_are_parsed_and_formatted() {
    for (text, limit, millis, formatted) in [
        ("100/minute", 100, 60_000, "100/minute"),
        ("5/s", 5, 1000, "5/second"),
        ("10_000/hour", 10_000, 3_600_000, "10000/hour"),
        ("20/10s", 20, 10_000, "20/10s"),
        ("3/1h30m", 3, 5_400_000, "3/90m"),
        ("1 / day", 1, 86_400_000, "1/day"),
        ("1/7d", 1, 604_800_000, "1/week"),
        ("7/100ms", 7, 100, "7/100ms"),
        ("0/s", 0, 1000, "0/second"),
    ] {
        let parsed: Quota = text.parse().unwrap();
        assert_eq!(parsed, quota(limit, millis), "{text}");
        assert_eq!(parsed.to_string(), formatted);
        assert_eq!(formatted.parse(), Ok(parsed));
    }
    for text in ["", "100", "100/", "/minute", "100/fortnight", "-1/s", "1.5/s"] {
        let message = text.parse::<Quota>().unwrap_err().to_string();
        assert!(message.starts_with(&format!("invalid quota {text:?}: use a limit")));
    }
    let error = "9007199254740992/s".parse::<Quota>().unwrap_err();
    let message = "limit 9007199254740992 is out of range: use 0 to 9007199254740991";
    assert_eq!(error.to_string(), message);
    assert!("1/0s".parse::<Quota>().is_err());
}

#[test]
fn durations_are_parsed_and_formatted() {
    for (text, millis, formatted) in [
        ("500ms", 500, "500ms"),
        ("10s", 10_000, "10s"),
        ("60s", 60_000, "1m"),
        ("1h30m", 5_400_000, "90m"),
        ("7d", 604_800_000, "1w"),
        ("0s", 0, "0s"),
        ("1s1ms", 1001, "1001ms"),
    ] {
        let parsed = parse_duration(text).unwrap();
        assert_eq!(parsed, Duration::from_millis(millis), "{text}");
        assert_eq!(format_duration(parsed), formatted);
    }
    for text in
        ["", "10", "s", "10 s", "-1s", "1.5s", "10sec", "1S", "99999999999w", "1s 1ms", "10s5"]
    {
        assert!(parse_duration(text).is_err(), "{text}");
    }
}

#[test]
fn policies_are_serde_values() {
    let full = json!({
        "name": "api",
        "quotas": ["100/minute", "20/10s"],
        "algorithm": {"segments": 60},
        "mode": "shadow",
        "failure_mode": "local",
    });
    let policy: Policy = from_value(full.clone()).unwrap();
    assert_eq!(policy.quotas(), [quota(100, 60_000), quota(20, 10_000)]);
    assert_eq!(policy.algorithm(), Algorithm::Segments { count: 60 });
    assert_eq!((policy.mode(), policy.failure_mode()), (Mode::Shadow, FailureMode::Local));
    assert_eq!(to_value(&policy).unwrap(), full);
    let brief: Policy = from_value(json!({"name": "api", "quotas": ["1/s"]})).unwrap();
    assert_eq!(brief, Policy::new("api", quota(1, 1000)).unwrap());
    assert_eq!(to_value(brief.algorithm()).unwrap(), json!("log"));
}

#[test]
fn serde_rejects_what_a_builder_rejects() {
    let with = |name: &str, value: Value| {
        let mut policy = json!({"name": "api", "quotas": ["1/s"]});
        policy[name] = value;
        from_value::<Policy>(policy).unwrap_err().to_string()
    };
    for (message, part) in [
        (with("name", json!("1api")), "invalid policy name \"1api\""),
        (with("quotas", json!([])), "number of quotas 0 is out of range"),
        (with("quotas", json!(["1"])), "invalid quota \"1\""),
        (with("algorithm", json!("lgo")), "unknown algorithm \"lgo\""),
        (with("algorithm", json!({"segments": 2000})), "segment count 2000 is out of range"),
        (with("algorithm", json!({})), "expected an algorithm"),
        (with("algorithm", json!({"segments": 1, "log_capped": 64})), "expected one algorithm"),
        (with("algorithm", json!(5)), "expected an algorithm"),
        (with("mode", json!("off")), "unknown variant `off`"),
        (with("quota", json!("1/s")), "unknown field `quota`"),
    ] {
        assert!(message.contains(part), "{message}");
    }
}
