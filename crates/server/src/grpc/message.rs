//! Envoy's messages, as far as they are supported. They match the `.proto` files in `proto/`.
//!
//! Requests are also read in their JSON form.

use prost::Message;
use prost_types::{Duration, Struct};
use serde::Deserialize;

use crate::domain::json_form;

/// A request.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitRequest {
    /// The domain.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub domain: String,
    /// The descriptors.
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "json_form::objects")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// Units for descriptors without their own. Zero means one.
    #[prost(uint32, tag = "3")]
    #[serde(alias = "hits_addend", deserialize_with = "json_form::number")]
    pub hits_addend: u32,
}

/// One path through the tree.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitDescriptor {
    /// One entry per level.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json_form::objects")]
    pub entries: Vec<DescriptorEntry>,
    /// A limit that replaces the configured one.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "json_form::object")]
    pub limit: Option<RateLimitOverride>,
    /// Units. Zero checks without taking.
    #[prost(message, optional, tag = "3")]
    #[serde(alias = "hits_addend", deserialize_with = "json_form::number")]
    pub hits_addend: Option<u64>,
    /// Whether the units are refunded.
    #[prost(bool, tag = "4")]
    #[serde(alias = "is_negative_hits", deserialize_with = "json_form::or_default")]
    pub is_negative_hits: bool,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DescriptorEntry {
    /// The key.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub key: String,
    /// The value, which may be empty.
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub value: String,
}

/// A limit in a request.
#[derive(Clone, Copy, PartialEq, Eq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitOverride {
    /// The limit. Zero denies every request.
    #[prost(uint32, tag = "1")]
    #[serde(alias = "requests_per_unit", deserialize_with = "json_form::number")]
    pub requests_per_unit: u32,
    /// A number of [`unit_of`](crate::domain::unit_of).
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "json_form::unit")]
    pub unit: i32,
}

/// A response.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    /// 1 is within the limit, 2 over it.
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    /// One status per descriptor, in its order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    /// Fields for the response to the client.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// Fields for the request to the service behind Envoy: always empty.
    #[prost(message, repeated, tag = "4")]
    pub request_headers_to_add: Vec<HeaderValue>,
    /// The body of a denial: always empty.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
    /// Metadata for other filters.
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<Struct>,
}

/// The status of one descriptor.
#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    /// 1 is within the limit, 2 over it.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The limit that applied.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    /// Units left.
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    /// If over the limit, the time until this request would be allowed. Otherwise, the time until
    /// more units are available. In whole seconds, rounded up.
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// The limit that applied.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimit {
    /// The number of requests.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// A number of [`number_of`](crate::domain::number_of).
    #[prost(int32, tag = "2")]
    pub unit: i32,
    /// The configured name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A header field.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    /// The name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
    /// The value, if it is not text.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}
