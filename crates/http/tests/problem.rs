//! The body of a 429 and of a 503: its content, and that it is valid JSON.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};
use slidegate::{
    Cost, Decision, DegradedReason, FailureMode, Limiter, ManualClock, Mode, Outcome, Policy,
    Quota, QuotaDecision, RetryAfter,
};
use slidegate_http::{Body, PolicyDecision, Problem, ProblemKind};

fn limiter(name: &str, limit: u32) -> Limiter {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let policy = Policy::new(name, Quota::per_minute(limit)).unwrap();
    Limiter::builder(policy).clock(clock).build().unwrap()
}

fn read(problem: &Problem, body: Body) -> Value {
    serde_json::from_str(&problem.body(body)).unwrap()
}

#[test]
fn a_used_up_quota_is_429_with_its_name() {
    let limiter = limiter("api", 1);
    let allowed = limiter.check("alice");
    assert_eq!(Problem::of(&[PolicyDecision::new(limiter.policy(), &allowed)]), None);
    let decision = limiter.check("alice");
    let problem = Problem::of(&[PolicyDecision::new(limiter.policy(), &decision)]).unwrap();

    assert_eq!(problem.kind(), ProblemKind::QuotaExceeded);
    assert_eq!(problem.status(), 429);
    assert_eq!(
        read(&problem, Body::Problem),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Request cannot be satisfied as assigned quota has been exceeded",
            "status": 429,
            "detail": "used up: api (1 in 60 s); retry after 60 s",
            "violated-policies": ["api"],
            "retry_after": 60,
        })
    );
    assert_eq!(
        read(&problem.trace_id("t"), Body::Json),
        json!({
            "error": "quota_exceeded",
            "message": "used up: api (1 in 60 s); retry after 60 s",
            "violated-policies": ["api"],
            "retry_after": 60,
            "trace_id": "t",
        })
    );
}

#[test]
fn the_response_has_the_type_of_its_body_and_is_not_cached() {
    let limiter = limiter("api", 1);
    let _ = limiter.check("alice");
    let decision = limiter.check("alice");
    let problem = Problem::of(&[PolicyDecision::new(limiter.policy(), &decision)]).unwrap();
    for (body, content_type) in
        [(Body::Problem, "application/problem+json"), (Body::Json, "application/json")]
    {
        let response = problem.response(body);
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["content-type"], content_type);
        assert_eq!(response.headers()["cache-control"], "no-store");
        assert_eq!(response.headers()["retry-after"], "60");
        assert_eq!(*response.body(), problem.body(body));
    }
}

#[test]
fn only_the_quotas_that_denied_are_named() {
    let policy = Policy::builder("api")
        .quota(Quota::per_second(10))
        .quota(Quota::per_hour(1000))
        .build()
        .unwrap();
    let second = Duration::from_secs(1);
    let full = QuotaDecision::new(10, 0, second.into(), second);
    let room = QuotaDecision::new(1000, 400, RetryAfter::Now, second);
    let decision = Decision::new(Outcome::Deny, &[full, room], None);
    let problem = Problem::of(&[PolicyDecision::new(&policy, &decision)]).unwrap();
    assert_eq!(problem.violated_policies(), ["api-1s"]);

    // Used up in shadow mode, so it denied no request.
    let shadow = Policy::builder("new").quota(Quota::per_second(10)).mode(Mode::Shadow);
    let shadow = shadow.build().unwrap();
    let passed = Decision::new(Outcome::Allow, &[full], None);
    let decisions =
        [PolicyDecision::new(&policy, &decision), PolicyDecision::new(&shadow, &passed)];
    assert_eq!(Problem::of(&decisions).unwrap().violated_policies(), ["api-1s"]);
}

#[test]
fn a_request_that_can_never_pass_has_no_retry_time() {
    let limiter = limiter("api", 5);
    let decision = limiter.check_cost("alice", Cost::new(6).unwrap());
    let problem = Problem::of(&[PolicyDecision::new(limiter.policy(), &decision)]).unwrap();
    let body = read(&problem, Body::Problem);
    assert_eq!(body["detail"], "more than is ever allowed: api (5 in 60 s); no wait helps");
    assert_eq!(body.get("retry_after"), None);
    assert!(!problem.response(Body::Problem).headers().contains_key("retry-after"));
}

#[test]
fn a_failed_store_is_503_and_not_the_clients_fault() {
    let policy = |mode| {
        let builder = Policy::builder("api").quota(Quota::per_minute(1));
        builder.failure_mode(mode).build().unwrap()
    };
    let minute = Duration::from_secs(60);
    let full = [QuotaDecision::new(1, 0, minute.into(), minute)];

    let denying = policy(FailureMode::Deny);
    let degraded = Decision::new(Outcome::Deny, &full, None).into_degraded(DegradedReason::Other);
    let problem = Problem::of(&[PolicyDecision::new(&denying, &degraded)]).unwrap();
    assert_eq!((problem.kind(), problem.status().as_u16()), (ProblemKind::StoreFailed, 503));
    let body = read(&problem, Body::Problem);
    assert_eq!(body["type"], "about:blank");
    assert_eq!(body["title"], "Service Unavailable");
    assert_eq!(body["retry_after"], 60);
    assert_eq!(body.get("violated-policies"), None);

    // Decided by a limiter in this process: a real quota, so the client exceeded it.
    let local = policy(FailureMode::Local);
    let problem = Problem::of(&[PolicyDecision::new(&local, &degraded)]).unwrap();
    assert_eq!(problem.status(), 429);

    // A quota denied as well, which takes precedence.
    let denied = Decision::new(Outcome::Deny, &full, None);
    let decisions =
        [PolicyDecision::new(&denying, &degraded), PolicyDecision::new(&local, &denied)];
    assert_eq!(Problem::of(&decisions).unwrap().status(), 429);
}

#[test]
fn overload_differs_from_a_failed_store() {
    let overloaded = Problem::overloaded().retry_after(Duration::from_millis(1500));
    assert_eq!(overloaded.status(), 503);
    let body = read(&overloaded, Body::Problem);
    let type_uri = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
    assert_eq!(body["type"], type_uri);
    assert_eq!(body["retry_after"], 2);
    assert_eq!(read(&overloaded, Body::Json)["error"], "overloaded");
    assert_eq!(read(&Problem::store_failed(), Body::Json)["error"], "store_failed");
    assert_eq!(
        Problem::overloaded().retry_after(Duration::ZERO).response(Body::Json).headers()["retry-after"],
        "1"
    );
}

proptest! {
    // The trace id may come from a client: it must stay within its string and be bounded.
    #[test]
    fn any_trace_id_is_one_string(id: String) {
        let body = read(&Problem::overloaded().trace_id(&id), Body::Problem);
        let written = body["trace_id"].as_str().unwrap();
        prop_assert!(id.starts_with(written) && written.len() <= 128);
        prop_assert!(written.len() == id.len() || written.len() > 124);
    }
}
