//! Responses in the JSON form of protocol buffers: zero and empty values are omitted.

use serde_json::{Map, Value};

use crate::domain::{CurrentLimit, Response, Status};

pub(super) fn response(response: &Response) -> Value {
    let mut fields = Map::new();
    fields.insert("overallCode".to_owned(), response.overall.word().into());
    let statuses: Vec<Value> = response.statuses.iter().map(status).collect();
    fields.insert("statuses".to_owned(), statuses.into());
    if !response.headers.is_empty() {
        let headers: Vec<Value> = response.headers.iter().map(header).collect();
        fields.insert("responseHeadersToAdd".to_owned(), headers.into());
    }
    if let Some(metadata) = &response.metadata {
        fields.insert("dynamicMetadata".to_owned(), metadata.clone().into());
    }
    fields.into()
}

fn status(status: &Status) -> Value {
    let mut fields = Map::new();
    fields.insert("code".to_owned(), status.code.word().into());
    if let Some(limit) = &status.limit {
        fields.insert("currentLimit".to_owned(), current_limit(limit));
    }
    if status.remaining > 0 {
        fields.insert("limitRemaining".to_owned(), status.remaining.into());
    }
    if let Some(until) = status.until {
        fields.insert("durationUntilReset".to_owned(), format!("{}s", until.as_secs()).into());
    }
    fields.into()
}

fn current_limit(limit: &CurrentLimit) -> Value {
    let mut fields = Map::new();
    if let Some(name) = &limit.name {
        fields.insert("name".to_owned(), (**name).into());
    }
    if limit.requests > 0 {
        fields.insert("requestsPerUnit".to_owned(), limit.requests.into());
    }
    fields.insert("unit".to_owned(), limit.unit.name().to_ascii_uppercase().into());
    fields.into()
}

fn header((key, value): &(String, String)) -> Value {
    serde_json::json!({ "key": key, "value": value })
}
