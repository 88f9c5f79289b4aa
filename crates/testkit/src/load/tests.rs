//! Tests of `load`.

use super::*;

const POLICY: &str = r#""policy": {"algorithm": "log", "quotas": [{"limit": 1, "window_ms": 9}]}"#;

fn refused(rest: &str) -> String {
    let text = format!(r#"{{"name": "n", "why": "Because.", {POLICY}, {rest}}}"#);
    parse(&text).unwrap_err().why
}

#[test]
fn null_is_never_and_absent_is_not_compared() {
    let steps = r#""steps": [
        {"at_ms": 0, "op": "check", "cost": 2, "expect": {"retry_after_ms": null}},
        {"at_ms": 0, "op": "check", "expect": {}}]"#;
    let text = format!(r#"{{"name": "n", "why": "Because.", {POLICY}, {steps}}}"#);
    let trace = parse(&text).unwrap();
    assert_eq!(trace.steps[0].expect.retry_after_ms, Some(None));
    assert_eq!(trace.steps[1].expect.retry_after_ms, None);
    let again = serde_json::to_string(&trace).unwrap();
    assert_eq!(parse(&again).unwrap(), trace);
}

#[test]
fn rejects_a_misspelled_field() {
    let why = refused(r#""steps": [{"at_ms": 0, "op": "check", "expect": {"alowed": true}}]"#);
    assert!(why.contains("alowed"), "{why}");
}

#[test]
fn a_receipt_is_consumed_once() {
    let why = refused(
        r#""requires": ["refund"], "steps": [
        {"at_ms": 0, "op": "check", "as": "r"},
        {"at_ms": 0, "op": "refund", "of": "r"},
        {"at_ms": 0, "op": "refund", "of": "r"}]"#,
    );
    assert!(why.starts_with("step 3: there is no such receipt"), "{why}");
}

#[test]
fn a_trace_must_declare_its_requirements() {
    let why = refused(r#""steps": [{"at_ms": 0, "op": "peek"}]"#);
    assert_eq!(why, "it requires {Peek} but says {}");
}

#[test]
fn rejects_expectations_that_are_not_compared() {
    let why = refused(
        r#""requires": ["usage"],
        "steps": [{"at_ms": 0, "op": "usage", "expect": {"remaining": [1]}}]"#,
    );
    assert!(why.starts_with("step 1: it expects"), "{why}");
}
