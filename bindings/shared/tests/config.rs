//! Configuration files of the daemon, and options, as gates.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use slidegate::{Cost, Error, ManualClock};
use slidegate_bindings::{
    Config, HttpAnswer, HttpOptions, HttpPart, PlainDecision, PolicyOptions, StoreOptions, Warn,
    run_now,
};
use slidegate_gate::{Caller, Gate, Metrics};
use slidegate_http::QuotaUnit;

const FILE: &str = "
slidegate: 1
listen: {http: 127.0.0.1:8080}
memory: {limit_mb: 64}
stores:
  shared: {redis: \"redis://127.0.0.1:1\", deadline: 5ms}
policies:
  - name: api
    quotas: [2/second, {limit: 10, window: 1h}]
    tiers: {gold: [5/second, 1000/hour]}
    candidate: {quotas: [1/minute]}
  - name: trial
    quotas: 1/minute
    mode: shadow
  - name: everywhere
    quotas: 5/minute
    store: shared
    failure_mode: deny
rules: [{name: all, key: [address], policy: api}]
";

fn silent() -> Warn {
    Arc::new(|_| {})
}

fn gates(yaml: &str) -> Result<Vec<Gate>, Error> {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    Config::from_yaml(yaml)?.gates(Some(&clock), &Arc::new(Metrics::new()), &silent())
}

#[expect(clippy::unwrap_used, reason = "a failed test may panic")]
fn check(gate: &Gate, tier: Option<&str>) -> PlainDecision {
    let tier = tier.and_then(|tier| gate.tier(tier));
    let decided = run_now(gate.check(b"alice", tier, Cost::ONE, Caller::IN_PROCESS)).unwrap();
    PlainDecision::from(&decided)
}

#[test]
fn policies_of_a_daemon_file_become_gates() {
    let file = FILE.replace("    store: shared\n", "");
    let gates = gates(&file).unwrap();
    let names: Vec<&str> = gates.iter().map(Gate::name).collect();
    assert_eq!(names, ["api", "trial", "everywhere"]);
    let first = check(&gates[0], None);
    assert_eq!((first.allowed, first.limit, first.remaining), (true, 2, 1));
    assert_eq!(first.quotas[1].remaining, 9);
    assert_eq!(check(&gates[0], Some("gold")).remaining, 3);
    assert!(check(&gates[1], None).allowed);
    let second = check(&gates[1], None);
    assert!(second.allowed && second.shadow_denied);
}

#[test]
fn mistakes_are_reported_with_their_place() {
    for (yaml, expected) in [
        ("policies: [{name: a}]", "quotas"),
        ("policies: [{name: a, quotas: 1/s, limt: 3}]", "limt"),
        ("policies:\n  - name: a\n    quotas: many", "line 3"),
        ("policies: [{name: a, quotas: 1/s}, {name: a, quotas: 1/s}]", "two policies are named"),
        ("policies: [{name: a, quotas: 1/s, store: far}]", "store \"far\" is not configured"),
        ("policies: [{name: a, quotas: 1/s, mode: on}]", "use enforce, shadow or off"),
        ("memory: {on_full: panic}", "use overflow, lru or deny"),
        ("policies: [", ""),
    ] {
        let error = gates(yaml).map(|gates| gates.len()).unwrap_err().to_string();
        assert!(error.contains(expected), "{yaml}: {error}");
    }
    assert!(gates(FILE).unwrap_err().to_string().contains("manual clock works in memory only"));
}

/// The packages read the same keys as the daemon, whose reference is written by its own tests.
#[test]
fn keys_are_those_of_the_daemon() {
    let reference = include_str!("../../../docs/configuration.md");
    let daemon = |heading: &str| -> BTreeSet<String> {
        let section = reference.split(heading).nth(1).unwrap().split("\n### ").next().unwrap();
        let rows = section.lines().filter_map(|line| line.strip_prefix("| `"));
        rows.filter_map(|row| row.split('`').next()).map(str::to_owned).collect()
    };
    let accepts = |error: String| -> BTreeSet<String> {
        let list = error.split("expected one of ").nth(1).unwrap();
        let words = list.split('`').skip(1).step_by(2).map(str::to_owned);
        words.filter(|word| !word.contains(char::is_uppercase)).collect()
    };
    let policy = accepts(PolicyOptions::from_json(r#"{"?": 1}"#).unwrap_err().to_string());
    let missing: Vec<_> = daemon("\n### `policies[]`\n").difference(&policy).cloned().collect();
    assert_eq!(missing, [""; 0], "keys of a policy that the packages do not read");
    let store = accepts(StoreOptions::from_json(r#"{"?": 1}"#).unwrap_err().to_string());
    let missing: Vec<_> = daemon("\n### `stores.NAME`\n").difference(&store).cloned().collect();
    assert_eq!(missing, [""; 0], "keys of a store that the packages do not read");
}

#[tokio::test]
async fn unreachable_redis_leaves_the_decision_to_the_failure_mode() {
    let metrics = Arc::new(Metrics::new());
    let gates = Config::from_yaml(FILE).unwrap().gates(None, &metrics, &silent()).unwrap();
    let decided = gates[2].check(b"alice", None, Cost::ONE, Caller::IN_PROCESS).await;
    let plain = PlainDecision::from(&decided);
    assert!(!plain.allowed);
    assert!(plain.degraded.is_some());
    let unit = QuotaUnit::REQUESTS;
    let part = HttpPart { gate: &gates[2], tier: None, unit: &unit, decided: &decided };
    let options = HttpOptions::default();
    let answer = HttpAnswer::new(&[part], &options, SystemTime::UNIX_EPOCH, Some("abc"));
    let (status, content_type, body) = answer.denial.unwrap();
    assert_eq!((status, content_type), (503, "application/problem+json"));
    assert!(body.contains("\"trace_id\":\"abc\""), "{body}");
    assert!(metrics.render().contains("everywhere"));
}

#[test]
fn denials_have_all_fields_and_shadow_gates_none() {
    let gates = gates(&FILE.replace("    store: shared\n", "")).unwrap();
    let unit = QuotaUnit::REQUESTS;
    let options =
        HttpOptions::from_json(r#"{"ratelimit": "list", "xRatelimit": "epoch"}"#).unwrap();
    let ask = |gate: &Gate| {
        let decided = run_now(gate.check(b"bob", None, Cost::ONE, Caller::IN_PROCESS)).unwrap();
        let part = HttpPart { gate, tier: None, unit: &unit, decided: &decided };
        HttpAnswer::new(&[part], &options, SystemTime::UNIX_EPOCH, None)
    };
    assert!(ask(&gates[0]).denial.is_none());
    ask(&gates[0]);
    let denied = ask(&gates[0]);
    let (status, _, body) = denied.denial.unwrap();
    assert_eq!(status, 429);
    assert!(body.contains("\"violated-policies\":[\"api-1s\"]"), "{body}");
    let names: Vec<&str> = denied.headers.iter().map(|(name, _)| name.as_str()).collect();
    assert!(names.contains(&"retry-after") && names.contains(&"ratelimit"), "{names:?}");
    assert!(denied.headers.contains(&("x-ratelimit-reset".to_owned(), "1".to_owned())));
    ask(&gates[1]);
    let shadow = ask(&gates[1]);
    assert_eq!(shadow, HttpAnswer::default());
    assert!(HttpOptions::from_json(r#"{"body": "html"}"#).is_err());
}
