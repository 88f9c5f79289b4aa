//! The messages of the runner for wrong stores, and its treatment of unsupported operations.

use std::time::Duration;

use slidegate_testkit::{
    Answer, DefinedReceipt, DefinedSubject, Report, Subject, SubjectError, Trace, parse, run,
};

/// A store that supports only checks, and may be generous.
struct Poor {
    model: DefinedSubject,
    allows_all: bool,
}

impl Subject for Poor {
    type Receipt = DefinedReceipt;

    fn set_time(&mut self, now: Duration) -> Result<(), SubjectError> {
        self.model.set_time(now)
    }

    fn check(
        &mut self,
        key: &str,
        tier: Option<&str>,
        cost: u64,
    ) -> Result<(Answer, Option<DefinedReceipt>), SubjectError> {
        let (mut answer, receipt) = self.model.check(key, tier, cost)?;
        answer.allowed |= self.allows_all;
        Ok((answer, receipt))
    }
}

fn play(trace: &Trace, allows_all: bool) -> Result<Report, String> {
    let mut subject = Poor { model: DefinedSubject::new(trace), allows_all };
    run(trace, &mut subject).map_err(|mismatch| mismatch.to_string())
}

fn trace(requires: &str, steps: &str) -> String {
    format!(
        r#"{{"name": "demo", "why": "It is a demonstration.", "requires": [{requires}],
        "policy": {{"algorithm": "log", "quotas": [{{"limit": 1, "window_ms": 9}}]}},
        "steps": [{steps}]}}"#
    )
}

const TAKE: &str = r#"{"at_ms": 0, "op": "check", "as": "r", "expect": {"allowed": true}}"#;
const LOOK: &str = r#"{"at_ms": 0, "op": "peek", "expect": {"allowed": false}}"#;
const GIVE: &str = r#"{"at_ms": 1, "op": "refund", "of": "r", "expect": {"units": 1}}"#;
const DENY: &str = r#"{"at_ms": 2, "op": "check", "expect": {"allowed": false}}"#;

#[test]
fn a_wrong_result_is_reported_with_its_place() {
    let trace = parse(&trace("", &[TAKE, DENY].join(","))).unwrap();
    assert_eq!(play(&trace, false), Ok(Report { passed: 2, skipped: 0 }));
    assert_eq!(
        play(&trace, true).unwrap_err(),
        "trace demo, step 2 (check k for 1 at 2 ms): allowed: expected false, got true"
    );
}

#[test]
fn an_unsupported_read_is_skipped_alone() {
    let trace = parse(&trace(r#""peek""#, &[TAKE, LOOK, DENY].join(","))).unwrap();
    assert_eq!(play(&trace, false), Ok(Report { passed: 2, skipped: 1 }));
}

#[test]
fn an_unsupported_change_skips_the_rest() {
    let trace = parse(&trace(r#""refund""#, &[TAKE, GIVE, DENY].join(","))).unwrap();
    assert_eq!(play(&trace, false), Ok(Report { passed: 1, skipped: 2 }));
}

#[test]
fn undeclared_operations_must_be_supported() {
    let mut trace = parse(&trace(r#""peek""#, &[TAKE, LOOK, DENY].join(","))).unwrap();
    trace.requires.clear();
    assert_eq!(
        play(&trace, false).unwrap_err(),
        "trace demo, step 2 (peek k for 1 at 0 ms): decision: expected an answer, \
         got Peek is not supported"
    );
}

#[test]
fn a_missing_receipt_is_reported() {
    let denied = r#"{"at_ms": 0, "op": "check", "cost": 2, "as": "r"}"#;
    let trace = parse(&trace(r#""refund""#, &[denied, GIVE].join(","))).unwrap();
    assert_eq!(
        play(&trace, false).unwrap_err(),
        "trace demo, step 2 (refund r at 1 ms): receipt: expected one as r, got \"none\""
    );
}
