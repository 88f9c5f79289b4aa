//! The metadata of a descriptor, which is part of the response.

use serde_json::{Map, Number, Value as Json};

use super::scalar;
use crate::config::report::Report;
use crate::config::yaml::{Node, Scalar, Shape, Value};

/// Reads the metadata of a descriptor, or `None` if it is empty.
pub(super) fn metadata(node: &Node, report: &mut Report) -> Option<Json> {
    let found = node.get("metadata")?;
    if !matches!(found.kind, Shape::Map(_)) {
        scalar::wrong_type(found, "metadata", "a map", report);
        return None;
    }
    if found.entries().is_empty() {
        return None;
    }
    Some(convert(found, report))
}

fn convert(node: &Node, report: &mut Report) -> Json {
    match &node.kind {
        Shape::Map(entries) => {
            let members = entries.iter().map(|entry| {
                let key = entry.key.text.clone();
                (key, convert(&entry.value, report))
            });
            Json::Object(members.collect::<Map<_, _>>())
        }
        Shape::List(items) => Json::Array(items.iter().map(|item| convert(item, report)).collect()),
        Shape::Scalar(scalar) => number_or_text(scalar).unwrap_or_else(|| {
            let message = format!("`{}` cannot be part of a response", scalar.text);
            report.error(node.span, "value", message).help("put it in quotes");
            Json::Null
        }),
    }
}

fn number_or_text(found: &Scalar) -> Option<Json> {
    match scalar::value(found) {
        Value::Null => Some(Json::Null),
        Value::Flag(flag) => Some(Json::Bool(flag)),
        Value::Whole(number) => {
            i64::try_from(number).ok().map(|number| Json::Number(number.into()))
        }
        Value::Decimal(number) => Number::from_f64(number).map(Json::Number),
        Value::Text => Some(Json::String(found.text.clone())),
    }
}
