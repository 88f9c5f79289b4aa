//! The protocol as JSON.

use serde_json::{Value, json};
use slidegate_gate::Caller;
use slidegate_server::access::{AccessError, Scope};
use slidegate_server::domain::{self, JsonReply};

use super::setup::*;

fn post(house: &TestEngine, body: &str) -> JsonReply {
    now(domain::json(
        house.engine.plan().domains(),
        &house.options,
        body.as_bytes(),
        Caller::IN_PROCESS,
        Ok(()),
    ))
}

fn read(reply: &JsonReply) -> Value {
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn a_request_passes_and_then_does_not() {
    let house = TestEngine::new(vec![named("user", 1, "one", &[])])
        .options(|options| options.envoy.response_headers = true);
    let body =
        r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user", "value": "a"}]}]}"#;
    let first = post(&house, body);
    assert_eq!((first.status, first.headers), (200, &[("content-type", "application/json")][..]));
    let header = |key: &str, value: &str| json!({"key": key, "value": value});
    assert_eq!(
        read(&first),
        json!({
            "overallCode": "OK",
            "statuses": [{
                "code": "OK",
                "currentLimit": {"name": "one", "requestsPerUnit": 1, "unit": "MINUTE"},
                "durationUntilReset": "60s",
            }],
            "responseHeadersToAdd": [
                header("RateLimit-Limit", "1"),
                header("RateLimit-Remaining", "0"),
                header("RateLimit-Reset", "60"),
            ],
        })
    );
    house.clock.advance(std::time::Duration::from_millis(500));
    let second = post(&house, body);
    assert_eq!(second.status, 429);
    assert!(second.headers.contains(&("cache-control", "no-store")));
    assert_eq!(read(&second)["overallCode"], "OVER_LIMIT");
    assert_eq!(read(&second)["statuses"][0]["durationUntilReset"], "60s");
}

#[test]
fn both_spellings_strings_for_numbers_and_null_are_understood() {
    let house = TestEngine::new(vec![minute("user", 100)]);
    for (body, remaining) in [
        (
            r#"{"hits_addend": 2, "descriptors": [{"entries": [{"key": "user"}]}], "domain": "shop"}"#,
            98,
        ),
        (
            r#"{"hitsAddend": "3", "descriptors": [{"entries": [{"key": "user", "value": null}], "limit": null}], "domain": "shop"}"#,
            95,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}], "hitsAddend": "5"}]}"#,
            90,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}], "hits_addend": 0}]}"#,
            90,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}], "hitsAddend": 4, "isNegativeHits": true}]}"#,
            94,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}], "limit": {"requestsPerUnit": 50, "unit": "MINUTE"}}]}"#,
            43,
        ),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [{"key": "user"}], "limit": {"requests_per_unit": "50", "unit": 2}}]}"#,
            42,
        ),
    ] {
        let reply = post(&house, body);
        assert_eq!(reply.status, 200, "{}", String::from_utf8_lossy(&reply.body));
        assert_eq!(read(&reply)["statuses"][0]["limitRemaining"], remaining, "{body}");
    }
}

#[test]
fn what_cannot_be_answered_is_a_bad_request_that_says_why() {
    let house = TestEngine::new(vec![minute("user", 100)]);
    let limit =
        |limit: &str| format!(r#"{{"domain": "shop", "descriptors": [{{"limit": {limit}}}]}}"#);
    let deep = "[".repeat(10_000);
    for (body, part) in [
        ("", "EOF"),
        ("[]", "expected an object"),
        (r#"["shop", []]"#, "expected an object"),
        (
            r#"{"domain": "shop", "descriptors": [{"entries": [["user", "a"]]}]}"#,
            "expected an object",
        ),
        (deep.as_str(), "expected an object"),
        ("{}", "rate limit domain must not be empty"),
        (r#"{"domain": "shop"}"#, "rate limit descriptor list must not be empty"),
        (r#"{"domain": "shop", "nonsense": 1}"#, "unknown field `nonsense`"),
        (r#"{"domain": "shop", "hitsAddend": -1}"#, "not negative"),
        (r#"{"domain": "shop", "hitsAddend": 4294967296}"#, "out of range: use 0 to 4294967295"),
        (&limit(r#"{"requestsPerUnit": 1}"#), "unknown unit 0 of a limit"),
        (&limit(r#"{"unit": "FORTNIGHT"}"#), "unknown unit FORTNIGHT of a limit"),
        (&limit(r#"{"unit": 8}"#), "unit 8"),
    ] {
        let reply = post(&house, body);
        let message = String::from_utf8_lossy(&reply.body);
        assert_eq!(reply.status, 400, "{body}: {message}");
        assert!(message.contains(part), "{body}: {message}");
    }
    assert_eq!(house.engine.plan().domains().statistics().service_error.get(), 13);
}

#[test]
fn health_is_a_word_or_a_failure() {
    assert_eq!(
        (domain::healthcheck(true).status, domain::healthcheck(true).body),
        (200, b"OK".to_vec())
    );
    assert_eq!(domain::healthcheck(false).status, 500);
}

#[test]
fn units_are_given_back_only_with_the_scope_for_changes() {
    let house = TestEngine::new(vec![minute("user", 2)]);
    let entries = r#""entries": [{"key": "user", "value": "a"}]"#;
    let ask = |more: &str, may| {
        let body = format!(r#"{{"domain": "shop", "descriptors": [{{{entries}{more}}}]}}"#);
        let (plan, options) = (house.engine.plan(), &house.options);
        now(domain::json(plan.domains(), options, body.as_bytes(), Caller::IN_PROCESS, may)).status
    };
    let back = r#", "isNegativeHits": true"#;
    for (refusal, status) in
        [(AccessError::Off(Scope::Change), 403), (AccessError::TokenNeeded(Scope::Change), 401)]
    {
        assert_eq!(ask("", Err(refusal)), 200);
        assert_eq!(ask(back, Err(refusal)), status);
    }
    assert_eq!(ask("", Ok(())), 429);
    assert_eq!((ask(back, Ok(())), ask("", Ok(()))), (200, 200));
}
