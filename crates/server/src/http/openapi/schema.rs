//! The shapes of bodies.

use serde_json::{Map, Value, json};
use slidegate::Policy;

use super::reference;
use crate::http::HttpSettings;
use crate::http::ask::UNITS_MAX;
use crate::receipt::TEXT_MAX as RECEIPT_MAX;

/// Every schema by its name.
pub(super) fn all(settings: &HttpSettings, policies: &[&str]) -> Value {
    let key = key(settings.key_max);
    let policy = || reference("PolicyName");
    let cost = || nullable(&units(1), "Units that the request asks for; 1 unless told");
    let tier = || json!({"type": ["string", "null"], "description": "Other quotas of the policy"});
    let receipt = || reference("Receipt");
    // Any text: one that names no policy is not malformed, it is not there.
    let name = json!({"type": "string", "examples": policies});
    let word = json!({
        "type": "string", "minLength": 4, "maxLength": RECEIPT_MAX, "pattern": "^[A-Za-z0-9_-]+$",
        "description": "Units that a check took, as it gave it. To be used once: a second time, it would \
            give back later units of the same key",
    });
    let schemas = [
        ("PolicyName", name),
        ("Receipt", word),
        (
            "Ask",
            object(
                &[("policy", policy()), ("key", key.clone())],
                &[("cost", cost()), ("tier", tier())],
            ),
        ),
        (
            "Reservation",
            object(
                &[("policy", policy()), ("key", key.clone()), ("cost", units(1))],
                &[("tier", tier())],
            ),
        ),
        ("Who", object(&[("policy", policy()), ("key", key.clone())], &[("tier", tier())])),
        (
            "Refund",
            object(
                &[("policy", policy()), ("key", key.clone()), ("receipt", receipt())],
                &[("tier", tier())],
            ),
        ),
        (
            "Settlement",
            object(
                &[
                    ("policy", policy()),
                    ("key", key.clone()),
                    ("receipt", receipt()),
                    ("actual", units(0)),
                ],
                &[("tier", tier())],
            ),
        ),
        ("Forget", object(&[("policy", policy()), ("key", key)], &[])),
        ("Asks", object(&[("asks", list(&reference("Ask"), 1, settings.batch_max))], &[])),
        (
            "AsksTogether",
            object(&[("asks", list(&reference("Ask"), 1, settings.together_max))], &[]),
        ),
    ];
    let mut all: Map<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect();
    all.extend(replies(settings));
    Value::from(all)
}

/// What is answered.
fn replies(settings: &HttpSettings) -> Map<String, Value> {
    let policy = || reference("PolicyName");
    let quotas = |item: &Value| list(item, 1, Policy::QUOTAS_MAX);
    let answers = |item: &Value, most: usize| list(item, 1, most);
    let either = json!({"anyOf": [reference("Answer"), reference("Problem")]});
    let event = object(&[("at", seconds()), ("units", count())], &[]);
    let used = object(&[("limit", units(1)), ("window", seconds()), ("used", count())], &[]);
    let tiers = json!({"type": "object", "additionalProperties": quotas(&reference("Quota"))});
    let word = || json!({"type": "string"});
    let candidate = object(&[("quotas", quotas(&reference("Quota"))), ("algorithm", word())], &[]);
    let schemas = [
        ("Answer", answer()),
        (
            "AnswerTogether",
            object(
                &[
                    ("allowed", flag("Whether the request may go on")),
                    ("answers", answers(&reference("Answer"), settings.together_max)),
                ],
                &[],
            ),
        ),
        ("Answers", object(&[("answers", answers(&either, settings.batch_max))], &[])),
        ("Refunded", object(&[("policy", policy()), ("refunded", count())], &[])),
        ("Settled", object(&[("policy", policy()), ("charged", count())], &[])),
        ("Usage", object(&[("policy", policy()), ("quotas", quotas(&used))], &[])),
        (
            "History",
            object(
                &[
                    ("policy", policy()),
                    ("events", list(&event, 0, settings.history_max)),
                    ("left_out", count()),
                ],
                &[],
            ),
        ),
        (
            "Forgotten",
            object(&[("policy", policy()), ("reset", flag("Whether it was known"))], &[]),
        ),
        ("Quota", object(&[("limit", units(1)), ("window", seconds())], &[])),
        (
            "Policy",
            object(
                &[
                    ("name", policy()),
                    ("quotas", quotas(&reference("Quota"))),
                    ("algorithm", word()),
                    ("mode", json!({"enum": ["enforce", "shadow", "off"]})),
                    ("enforce_percent", json!({"type": "integer", "minimum": 0, "maximum": 100})),
                    ("store", word()),
                    ("failure_mode", json!({"enum": ["allow", "deny", "local"]})),
                    ("tiers", tiers),
                ],
                &[("candidate", candidate)],
            ),
        ),
        (
            "Policies",
            object(&[("policies", json!({"type": "array", "items": reference("Policy")}))], &[]),
        ),
        ("Problem", problem()),
    ];
    schemas.into_iter().map(|(name, schema)| (name.to_owned(), schema)).collect()
}

fn answer() -> Value {
    let retry = nullable(&seconds(), "After so many seconds it would pass; null for never");
    let standing = [("limit", units(1)), ("remaining", units(0)), ("reset_after", seconds())];
    let quota = [&standing[..], &[("window", seconds())]].concat();
    let quota = object(&quota, &[("retry_after", retry.clone())]);
    let required = [
        ("allowed", flag("Whether the request may go on")),
        ("policy", reference("PolicyName")),
        ("quotas", list(&quota, 1, Policy::QUOTAS_MAX)),
    ];
    let optional = [
        ("retry_after", retry),
        ("receipt", reference("Receipt")),
        ("over", flag("Of several, this one was in the way")),
        ("degraded", flag("The store failed, and the failure mode answered")),
        ("estimated", flag("Memory was full, and a sketch answered that can only over-count")),
        ("shadow_denied", flag("It would have been denied, were the policy enforced")),
        ("trace_id", trace()),
    ];
    object(&[&required[..], &standing].concat(), &optional)
}

fn problem() -> Value {
    let text = || json!({"type": "string"});
    let required = [
        ("type", text()),
        ("title", text()),
        ("status", json!({"type": "integer", "minimum": 400, "maximum": 599})),
        ("detail", text()),
    ];
    let optional = [
        ("nearest", text()),
        ("violated-policies", json!({"type": "array", "items": text()})),
        ("retry_after", units(1)),
        ("trace_id", trace()),
    ];
    object(&required, &optional)
}

fn trace() -> Value {
    json!({
        "type": "string", "pattern": "^[0-9a-f]{32}$",
        "description": "The trace of a denied request, as its field `traceparent` named it",
    })
}

/// The key's schema, which a query has too.
pub(super) fn key(most: usize) -> Value {
    json!({
        "type": "string", "minLength": 1, "maxLength": most,
        "description": "Who is counted", "examples": ["alice"],
    })
}

pub(super) fn units(least: u64) -> Value {
    json!({"type": "integer", "minimum": least, "maximum": UNITS_MAX})
}

/// Of what was counted: debts may add up to more than one request could ask for.
fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn seconds() -> Value {
    json!({"type": "number", "minimum": 0})
}

fn flag(what: &str) -> Value {
    json!({"type": "boolean", "description": what})
}

fn list(item: &Value, least: usize, most: usize) -> Value {
    json!({"type": "array", "items": item, "minItems": least, "maxItems": most})
}

/// The same, or null, which is as good as nothing.
fn nullable(schema: &Value, what: &str) -> Value {
    let mut schema = schema.clone();
    schema["type"] = json!([schema["type"], "null"]);
    schema["description"] = json!(what);
    schema
}

/// Nothing else may be in it.
fn object(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let members = required.iter().chain(optional);
    let properties: Map<String, Value> =
        members.map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    let names: Vec<&str> = required.iter().map(|(name, _)| *name).collect();
    json!({
        "type": "object", "properties": properties, "required": names,
        "additionalProperties": false,
    })
}
