//! A domain as JSON of the own format: which is YAML of it too.

use serde_json::{Map, Value, json};
use slidegate::Algorithm;

use crate::spec::{DescriptorSpec, DomainSpec, LimitSpec, MEMORY};

/// A domain with all its levels.
pub(super) fn domain(spec: &DomainSpec) -> Value {
    let mut members = Map::new();
    members.insert("domain".to_owned(), json!(spec.name));
    if spec.store != MEMORY {
        members.insert("store".to_owned(), json!(spec.store));
    }
    let descriptors: Vec<Value> = spec.descriptors.iter().map(descriptor).collect();
    members.insert("descriptors".to_owned(), Value::Array(descriptors));
    Value::Object(members)
}

fn descriptor(spec: &DescriptorSpec) -> Value {
    let mut members = Map::new();
    members.insert("key".to_owned(), json!(spec.key));
    if let Some(value) = &spec.value {
        members.insert("value".to_owned(), json!(value));
    }
    if let Some(found) = &spec.limit {
        members.insert("rate_limit".to_owned(), limit(found));
    }
    for (name, flag) in [
        ("shadow_mode", spec.shadow_mode),
        ("quota_mode", spec.quota_mode),
        ("detailed_metric", spec.detailed_metric),
        ("value_to_metric", spec.value_to_metric),
        ("share_threshold", spec.share_threshold),
    ] {
        if flag {
            members.insert(name.to_owned(), json!(true));
        }
    }
    if let Some(metadata) = &spec.metadata {
        members.insert("metadata".to_owned(), metadata.clone());
    }
    if !spec.descriptors.is_empty() {
        let descriptors = spec.descriptors.iter().map(descriptor).collect();
        members.insert("descriptors".to_owned(), Value::Array(descriptors));
    }
    Value::Object(members)
}

fn limit(spec: &LimitSpec) -> Value {
    let mut members = Map::new();
    match spec.rate {
        None => drop(members.insert("unlimited".to_owned(), json!(true))),
        Some(rate) => {
            members.insert("unit".to_owned(), json!(rate.unit.name()));
            members.insert("requests_per_unit".to_owned(), json!(rate.requests));
            if let Some(algorithm) = algorithm(rate.algorithm) {
                members.insert("algorithm".to_owned(), algorithm);
            }
        }
    }
    if let Some(name) = &spec.name {
        members.insert("name".to_owned(), json!(name));
    }
    if !spec.replaces.is_empty() {
        let replaces: Vec<Value> = spec.replaces.iter().map(|name| json!({"name": name})).collect();
        members.insert("replaces".to_owned(), Value::Array(replaces));
    }
    Value::Object(members)
}

/// As the own format says it; nothing for the default.
fn algorithm(algorithm: Algorithm) -> Option<Value> {
    match algorithm {
        Algorithm::Counter => Some(json!("counter")),
        Algorithm::Gcra => Some(json!("gcra")),
        Algorithm::Fixed => Some(json!("fixed")),
        Algorithm::Segments { count } => Some(json!({"segments": count})),
        Algorithm::LogCapped { bytes_max } => Some(json!({"log_capped": bytes_max})),
        _ => None,
    }
}
