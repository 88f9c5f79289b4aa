//! Converts messages to requests, and responses to messages.

use prost_types::value::Kind;
use prost_types::{ListValue, Struct, Value};
use serde_json::Value as Json;

use super::message::{
    DescriptorStatus, HeaderValue, RateLimit, RateLimitDescriptor, RateLimitRequest,
    RateLimitResponse,
};
use crate::domain::{
    CurrentLimit, Descriptor, Entry, Invalid, LimitRequest, Override, Response, Status, number_of,
    unit_of, unknown_unit,
};

impl RateLimitRequest {
    pub(crate) fn limit_request(&self) -> Result<LimitRequest<'_>, Invalid> {
        let descriptors = self.descriptors.iter().map(RateLimitDescriptor::view);
        Ok(LimitRequest {
            domain: &self.domain,
            descriptors: descriptors.collect::<Result<_, _>>()?,
            hits_addend: self.hits_addend,
        })
    }
}

impl RateLimitDescriptor {
    fn view(&self) -> Result<Descriptor<'_>, Invalid> {
        let limit = match self.limit {
            None => None,
            Some(limit) => {
                let unit = unit_of(limit.unit).ok_or_else(|| unknown_unit(limit.unit))?;
                Some(Override { requests: limit.requests_per_unit, unit })
            }
        };
        let entries = self.entries.iter();
        Ok(Descriptor {
            entries: entries.map(|entry| Entry { key: &entry.key, value: &entry.value }).collect(),
            limit,
            hits_addend: self.hits_addend,
            is_negative_hits: self.is_negative_hits,
        })
    }
}

impl From<Response> for RateLimitResponse {
    fn from(response: Response) -> Self {
        let Response { overall, statuses, headers, metadata } = response;
        let header = |(key, value)| HeaderValue { key, value, raw_value: Vec::new() };
        Self {
            overall_code: overall.number(),
            statuses: statuses.into_iter().map(DescriptorStatus::from).collect(),
            response_headers_to_add: headers.into_iter().map(header).collect(),
            request_headers_to_add: Vec::new(),
            raw_body: Vec::new(),
            dynamic_metadata: metadata.map(|map| structure(map.into_iter())),
        }
    }
}

impl From<Status> for DescriptorStatus {
    fn from(status: Status) -> Self {
        let Status { code, limit, remaining, until } = status;
        let limit = limit.map(|CurrentLimit { name, requests, unit }| RateLimit {
            requests_per_unit: requests,
            unit: number_of(unit),
            name: name.as_deref().unwrap_or_default().to_owned(),
        });
        let until = until.map(|until| prost_types::Duration {
            seconds: i64::try_from(until.as_secs()).unwrap_or(i64::MAX),
            nanos: 0,
        });
        Self {
            code: code.number(),
            current_limit: limit,
            limit_remaining: remaining,
            duration_until_reset: until,
        }
    }
}

fn structure(fields: impl Iterator<Item = (String, Json)>) -> Struct {
    Struct { fields: fields.map(|(key, json)| (key, value(json))).collect() }
}

fn value(json: Json) -> Value {
    let kind = match json {
        Json::Null => Kind::NullValue(0),
        Json::Bool(bool) => Kind::BoolValue(bool),
        // The protocol has only floating-point numbers.
        Json::Number(number) => Kind::NumberValue(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(string) => Kind::StringValue(string),
        Json::Array(values) => {
            Kind::ListValue(ListValue { values: values.into_iter().map(value).collect() })
        }
        Json::Object(fields) => Kind::StructValue(structure(fields.into_iter())),
    };
    Value { kind: Some(kind) }
}
