//! Envoy's messages, as far as they are spoken. The `.proto` files beside them say the same.
//!
//! Requests are also read in their JSON form.

use prost::Message;
use prost_types::{Duration, Struct};
use serde::Deserialize;

use crate::domain::json_form;

/// What is asked.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitRequest {
    /// Whose tree is asked.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub domain: String,
    /// What the request is.
    #[prost(message, repeated, tag = "2")]
    #[serde(deserialize_with = "json_form::objects")]
    pub descriptors: Vec<RateLimitDescriptor>,
    /// Units for descriptors that do not say; zero means one.
    #[prost(uint32, tag = "3")]
    #[serde(alias = "hits_addend", deserialize_with = "json_form::number")]
    pub hits_addend: u32,
}

/// One path through the tree.
#[derive(Clone, PartialEq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitDescriptor {
    /// One for each level.
    #[prost(message, repeated, tag = "1")]
    #[serde(deserialize_with = "json_form::objects")]
    pub entries: Vec<DescriptorEntry>,
    /// Instead of the limit that is configured.
    #[prost(message, optional, tag = "2")]
    #[serde(deserialize_with = "json_form::object")]
    pub limit: Option<RateLimitOverride>,
    /// Units; zero looks without taking.
    #[prost(message, optional, tag = "3")]
    #[serde(alias = "hits_addend", deserialize_with = "json_form::number")]
    pub hits_addend: Option<u64>,
    /// Whether the units are given back.
    #[prost(bool, tag = "4")]
    #[serde(alias = "is_negative_hits", deserialize_with = "json_form::or_default")]
    pub is_negative_hits: bool,
}

/// A key and its value.
#[derive(Clone, PartialEq, Eq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct DescriptorEntry {
    /// What it is about.
    #[prost(string, tag = "1")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub key: String,
    /// May be empty.
    #[prost(string, tag = "2")]
    #[serde(deserialize_with = "json_form::or_default")]
    pub value: String,
}

/// A limit that a request brings along.
#[derive(Clone, Copy, PartialEq, Eq, Message, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct RateLimitOverride {
    /// Zero denies everything.
    #[prost(uint32, tag = "1")]
    #[serde(alias = "requests_per_unit", deserialize_with = "json_form::number")]
    pub requests_per_unit: u32,
    /// A number of [`unit_of`](crate::domain::unit_of).
    #[prost(int32, tag = "2")]
    #[serde(deserialize_with = "json_form::unit")]
    pub unit: i32,
}

/// What is answered.
#[derive(Clone, PartialEq, Message)]
pub struct RateLimitResponse {
    /// 1 passes, 2 does not.
    #[prost(int32, tag = "1")]
    pub overall_code: i32,
    /// One for each descriptor, in its order.
    #[prost(message, repeated, tag = "2")]
    pub statuses: Vec<DescriptorStatus>,
    /// Fields for the response to the client.
    #[prost(message, repeated, tag = "3")]
    pub response_headers_to_add: Vec<HeaderValue>,
    /// Fields for the request to the service behind Envoy: none.
    #[prost(message, repeated, tag = "4")]
    pub request_headers_to_add: Vec<HeaderValue>,
    /// The body of a denial: none.
    #[prost(bytes = "vec", tag = "5")]
    pub raw_body: Vec<u8>,
    /// Handed on to other filters.
    #[prost(message, optional, tag = "6")]
    pub dynamic_metadata: Option<Struct>,
}

/// Where one descriptor stands.
#[derive(Clone, PartialEq, Message)]
pub struct DescriptorStatus {
    /// 1 has room, 2 has not.
    #[prost(int32, tag = "1")]
    pub code: i32,
    /// The limit that judged.
    #[prost(message, optional, tag = "2")]
    pub current_limit: Option<RateLimit>,
    /// Units left.
    #[prost(uint32, tag = "3")]
    pub limit_remaining: u32,
    /// Over the limit: the time until this request would pass. Otherwise: the time until more units are
    /// available. Whole seconds, rounded up.
    #[prost(message, optional, tag = "4")]
    pub duration_until_reset: Option<Duration>,
}

/// The limit that judged.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct RateLimit {
    /// So many.
    #[prost(uint32, tag = "1")]
    pub requests_per_unit: u32,
    /// A number of [`number_of`](crate::domain::number_of).
    #[prost(int32, tag = "2")]
    pub unit: i32,
    /// As configured.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A header field.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct HeaderValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value.
    #[prost(string, tag = "2")]
    pub value: String,
    /// Its value, if that is no text.
    #[prost(bytes = "vec", tag = "3")]
    pub raw_value: Vec<u8>,
}
