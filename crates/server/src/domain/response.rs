//! Responses, independent of the form of the protocol.

use core::time::Duration;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::spec::Unit;

/// The response to a [`LimitRequest`](super::LimitRequest).
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// The result for the request.
    pub overall: Code,
    /// One status per descriptor, in its order.
    pub statuses: Vec<Status>,
    /// Fields for the response to the client.
    pub headers: Vec<(String, String)>,
    /// Metadata for other filters.
    pub metadata: Option<Map<String, Value>>,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// Within the limit.
    Ok,
    /// Over the limit.
    OverLimit,
}

/// The status of one descriptor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The result of this descriptor alone.
    pub code: Code,
    /// The limit that applied, or `None`.
    pub limit: Option<CurrentLimit>,
    /// Units left. Zero if over the limit.
    pub remaining: u32,
    /// If over the limit, the time until this request would be allowed, at least one second.
    /// Otherwise, the time until more units are available. In whole seconds, rounded up.
    pub until: Option<Duration>,
}

/// The limit that applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentLimit {
    /// The configured name.
    pub name: Option<Arc<str>>,
    /// The number of requests.
    pub requests: u32,
    /// The time unit.
    pub unit: Unit,
}

impl Status {
    /// The status of a descriptor without a limit.
    pub(super) const FREE: Self = Self { code: Code::Ok, limit: None, remaining: 0, until: None };
    /// The status of an unlimited descriptor.
    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::FREE };
}

impl Code {
    /// Returns the number in the protocol.
    pub fn number(self) -> i32 {
        match self {
            Self::Ok => 1,
            Self::OverLimit => 2,
        }
    }

    /// Returns the word in the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}
