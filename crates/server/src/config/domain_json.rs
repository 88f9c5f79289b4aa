//! A domain as JSON of the native format, which is valid YAML too.

use serde_json::{Value, json};
use slidegate::Algorithm;

use crate::spec::{DescriptorSpec, DomainSpec, EnvoyFailureMode, HitsUsage, LimitSpec, MEMORY};

/// A domain with all its levels.
pub(super) fn domain(spec: &DomainSpec) -> Value {
    let descriptors: Vec<Value> = spec.descriptors.iter().map(descriptor).collect();
    let mut domain = json!({"domain": spec.name, "descriptors": descriptors});
    // Memory does not fail.
    if spec.store != MEMORY {
        domain["failure_mode"] = json!(spec.failure_mode.name());
        domain["store"] = json!(spec.store);
    }
    domain
}

fn descriptor(spec: &DescriptorSpec) -> Value {
    let descriptors: Vec<Value> = spec.descriptors.iter().map(descriptor).collect();
    without_defaults(json!({
        "key": spec.key,
        "value": spec.value,
        "rate_limit": spec.limit.as_ref().map(limit),
        "shadow_mode": spec.shadow_mode,
        "quota_mode": spec.quota_mode,
        "detailed_metric": spec.detailed_metric,
        "value_to_metric": spec.value_to_metric,
        "share_threshold": spec.share_threshold,
        "failure_mode": spec.failure_mode.map(EnvoyFailureMode::name),
        "usage": spec.usage.map(HitsUsage::name),
        "metadata": spec.metadata,
        "descriptors": descriptors,
    }))
}

fn limit(spec: &LimitSpec) -> Value {
    let replaces: Vec<Value> = spec.replaces.iter().map(|name| json!({"name": name})).collect();
    without_defaults(json!({
        "unlimited": spec.rate.is_none(),
        "unit": spec.rate.map(|rate| rate.unit.name()),
        "requests_per_unit": spec.rate.map(|rate| rate.requests),
        "algorithm": spec.rate.and_then(|rate| algorithm(rate.algorithm)),
        "name": spec.name,
        "replaces": replaces,
    }))
}

/// Removes members with the default value.
fn without_defaults(mut value: Value) -> Value {
    let says = |value: &Value| match value {
        Value::Null | Value::Bool(false) => false,
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    if let Value::Object(members) = &mut value {
        members.retain(|_, value| says(value));
    }
    value
}

/// Returns the algorithm in the native format, or `None` for the default.
fn algorithm(algorithm: Algorithm) -> Option<Value> {
    let value = match algorithm.parameter() {
        Some(number) => json!({algorithm.name(): number}),
        None => json!(algorithm.name()),
    };
    (algorithm != Algorithm::default()).then_some(value)
}
