//! The `OpenAPI` document, built from the routes, the schemas and the current settings.

use std::collections::BTreeMap;

use http::Request;
use hyper::body::Incoming;
use serde_json::{Map, Value, json};
use slidegate::Policy;

use slidegate::Quota;

use super::body::JSON;
use super::error::{ApiError, PROBLEM_TYPE};
use super::reply;
use super::request::no_query;
use super::route::{Operation, ROUTES, ReplySchema, Route};
use super::{HttpSettings, HttpState, Reply};
use crate::engine::HISTORY_MAX;
use crate::receipt::TEXT_MAX as RECEIPT_MAX;

/// `GET /openapi.json`
pub(super) fn document(state: &HttpState, request: &Request<Incoming>) -> Result<Reply, ApiError> {
    no_query(request.uri().query())?;
    let plan = state.engine().plan();
    let policies: Vec<&str> =
        plan.spec().policies.iter().take(EXAMPLES_MAX).map(|policy| &*policy.name).collect();
    Ok(reply::json(&describe(state.settings(), &policies)))
}

/// The maximum number of policy names in examples.
const EXAMPLES_MAX: usize = 20;

/// Returns the document, with policy names as examples.
fn describe(settings: &HttpSettings, policies: &[&str]) -> Value {
    let mut paths: BTreeMap<&str, Map<String, Value>> = BTreeMap::new();
    for route in ROUTES {
        let method = route.method.to_ascii_lowercase();
        paths.entry(route.path).or_default().insert(method, operation(settings, route));
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Slidegate",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Sliding-window rate limits. Times are in seconds.",
            "license": {"name": "MIT OR Apache-2.0", "identifier": "MIT OR Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": schemas(settings, policies),
            "headers": headers(),
        },
    })
}

fn operation(settings: &HttpSettings, route: &Route) -> Value {
    let mut operation = Map::new();
    operation.insert("operationId".to_owned(), json!(operation_id(route.operation)));
    operation.insert("summary".to_owned(), json!(route.summary));
    let parameters = parameters(settings, route);
    if !parameters.is_empty() {
        operation.insert("parameters".to_owned(), Value::from(parameters));
    }
    if let Some(name) = route.request {
        let content = json!({JSON: {"schema": reference(name)}});
        let body = json!({"required": true, "content": content});
        operation.insert("requestBody".to_owned(), body);
    }
    operation.insert("responses".to_owned(), responses(route));
    Value::from(operation)
}

fn operation_id(operation: Operation) -> String {
    let mut id = format!("{operation:?}");
    id[..1].make_ascii_lowercase();
    id
}

/// Returns the schemas, with references and bounds in place of the file's `"#Name"` and `"@bound"`.
fn schemas(settings: &HttpSettings, policies: &[&str]) -> Value {
    let bounds = [
        ("@policies", json!(policies)),
        ("@key_max", json!(settings.key_max)),
        ("@batch_max", json!(settings.batch_max)),
        ("@all_or_nothing_max", json!(settings.all_or_nothing_max)),
        ("@history_max", json!(HISTORY_MAX)),
        ("@units_max", json!(Quota::LIMIT_MAX)),
        ("@quotas_max", json!(Policy::QUOTAS_MAX)),
        ("@receipt_max", json!(RECEIPT_MAX)),
    ];
    // The file is part of the program, and tests read it.
    let mut schemas =
        serde_json::from_str(include_str!("openapi_schemas.json")).unwrap_or_default();
    fill(&mut schemas, &bounds);
    schemas
}

fn fill(value: &mut Value, bounds: &[(&str, Value)]) {
    match value {
        Value::Object(members) => members.values_mut().for_each(|member| fill(member, bounds)),
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, bounds)),
        Value::String(text) => {
            let bound = bounds.iter().find(|(name, _)| name == text);
            if let Some((_, bound)) = bound {
                *value = bound.clone();
            } else if let Some(name) = text.strip_prefix('#') {
                *value = reference(name);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn parameters(settings: &HttpSettings, route: &Route) -> Vec<Value> {
    let query = |name: &str, required: bool, schema: Value| json!({"name": name, "in": "query", "required": required, "schema": schema});
    let header = |name: &str, pattern: &str, what: &str| json!({"name": name, "in": "header", "required": true, "description": what, "schema": {"type": "string", "pattern": pattern}});
    let mut parameters = match route.operation {
        Operation::CheckQuery => vec![
            query("policy", true, reference("PolicyName")),
            query("key", true, reference("Key")),
            query("cost", false, reference("Cost")),
            query("tier", false, json!({"type": "string"})),
        ],
        Operation::Policy => vec![json!({
            "name": "name", "in": "path", "required": true, "schema": reference("PolicyName"),
        })],
        Operation::Auth => vec![
            // A comma or a space would be two values.
            header(
                "X-Forwarded-Method",
                "^[^, ]+$",
                "The method; nginx sends X-Original-Method instead",
            ),
            header("X-Forwarded-Uri", "", "Path and query; nginx sends X-Original-URI instead"),
            // The other value, `original`, is for nginx's fields.
            query("headers", false, json!({"enum": ["forwarded"]})),
            query("problem", false, json!({"enum": ["header"]})),
        ],
        Operation::Check
        | Operation::CheckAll
        | Operation::Batch
        | Operation::Peek
        | Operation::Refund
        | Operation::Reserve
        | Operation::Settle
        | Operation::Usage
        | Operation::History
        | Operation::Reset
        | Operation::Policies
        | Operation::Document => Vec::new(),
    };
    let denials = match route.reply {
        ReplySchema::Decision(_) => Some(["200", "429"]),
        ReplySchema::Empty => Some(["403", "429"]),
        ReplySchema::Plain(_) | ReplySchema::Object => None,
    };
    if let Some(statuses) = denials {
        parameters.push(query("status", false, json!({"enum": statuses})));
    }
    if denials.is_some() && route.operation != Operation::Peek {
        let most = settings.wait_max.as_secs_f64();
        let schema = json!({"type": "number", "minimum": 0, "maximum": most});
        let mut wait = query("wait", false, schema);
        wait["description"] = json!("Seconds to wait for units instead of being denied");
        parameters.push(wait);
    }
    parameters
}

fn responses(route: &Route) -> Value {
    let mut responses: BTreeMap<u16, Value> = BTreeMap::new();
    let content = |schema: Value| json!({JSON: {"schema": schema}});
    let (status, good) = match route.reply {
        ReplySchema::Decision(name) => {
            (200, json!({"content": content(reference(name)), "headers": header_references()}))
        }
        ReplySchema::Plain(name) => (200, json!({"content": content(reference(name))})),
        ReplySchema::Object => (200, json!({"content": content(json!({"type": "object"}))})),
        ReplySchema::Empty => (204, json!({"headers": header_references()})),
    };
    responses.insert(status, described(good, "Success"));
    let problem = || json!({"content": {PROBLEM_TYPE: {"schema": reference("Problem")}}});
    let mut reasons: BTreeMap<u16, Vec<&str>> = BTreeMap::new();
    reasons
        .entry(403)
        .or_default()
        .push("A page of another site sent the request, or the scope is not granted");
    if route.operation.scope().is_some() {
        reasons.entry(401).or_default().push("A token is needed");
    }
    for error in route.errors {
        reasons.entry(error.status().as_u16()).or_default().push(error.title());
    }
    if matches!(route.reply, ReplySchema::Decision(_) | ReplySchema::Empty) {
        let mut denied = problem();
        denied["headers"] = header_references();
        denied["headers"]["Retry-After"] = json!({"$ref": "#/components/headers/Retry-After"});
        responses.insert(429, described(denied, "A quota is used up"));
        reasons.entry(503).or_default().push("The store failed, and the failure mode is `deny`");
    }
    for (status, reasons) in reasons {
        responses.insert(status, described(problem(), &reasons.join("; ")));
    }
    let by_text: BTreeMap<String, Value> =
        responses.into_iter().map(|(status, response)| (status.to_string(), response)).collect();
    json!(by_text)
}

fn described(mut response: Value, what: &str) -> Value {
    response["description"] = json!(what);
    response
}

/// Optional: replies have them only with `?status=429`, and only for enforced limits.
const FIELDS: [(&str, &str); 5] = [
    ("RateLimit", "The status of every quota, as a structured list"),
    ("RateLimit-Policy", "Every quota, as a structured list"),
    ("X-RateLimit-Limit", "The limit of the tightest quota"),
    ("X-RateLimit-Remaining", "Units left in it"),
    ("X-RateLimit-Reset", "Seconds until more are available"),
];

fn header_references() -> Value {
    let one = |(name, _): &(&str, &str)| {
        ((*name).to_owned(), json!({"$ref": format!("#/components/headers/{name}")}))
    };
    Value::from(FIELDS.iter().map(one).collect::<Map<_, _>>())
}

fn headers() -> Value {
    let number = || json!({"type": "integer", "minimum": 0, "maximum": Quota::LIMIT_MAX});
    let mut headers = Map::new();
    for (name, what) in FIELDS {
        let schema = if name.starts_with("X-") { number() } else { json!({"type": "string"}) };
        headers.insert(name.to_owned(), json!({"description": what, "schema": schema}));
    }
    let what = "Seconds after which the request would be allowed; absent if never";
    let retry = json!({"description": what, "schema": number()});
    headers.insert("Retry-After".to_owned(), retry);
    Value::from(headers)
}

#[cfg(test)]
mod tests;
