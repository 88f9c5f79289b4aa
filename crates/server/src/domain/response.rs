//! What a caller is told, as any form of the protocol can carry it.

use core::time::Duration;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::spec::Unit;

/// The answer to a [`Question`](super::Question).
#[derive(Debug, Clone, PartialEq)]
pub struct Response {
    /// What becomes of the request.
    pub overall: Code,
    /// One for each descriptor, in its order.
    pub statuses: Vec<Status>,
    /// Fields for the response to the client.
    pub headers: Vec<(String, String)>,
    /// Handed on to other filters.
    pub metadata: Option<Map<String, Value>>,
}

/// Whether there is room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// There is.
    Ok,
    /// There is not.
    OverLimit,
}

/// Where one descriptor stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// Of this descriptor alone.
    pub code: Code,
    /// The limit that judged; `None` if none did.
    pub limit: Option<CurrentLimit>,
    /// Units left; none where it is over the limit.
    pub remaining: u32,
    /// Over the limit: the time until this request would pass, at least one second. Otherwise: the time
    /// until more units are available. Whole seconds, rounded up.
    pub until: Option<Duration>,
}

/// The limit that judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CurrentLimit {
    /// As configured.
    pub name: Option<Arc<str>>,
    /// So many.
    pub requests: u32,
    /// In so much time.
    pub unit: Unit,
}

impl Status {
    /// Of a descriptor that no limit judged.
    pub(super) const FREE: Self = Self { code: Code::Ok, limit: None, remaining: 0, until: None };
    /// Of a descriptor without a bound.
    pub(super) const UNLIMITED: Self = Self { remaining: u32::MAX, ..Self::FREE };
}

impl Code {
    /// The number of the protocol.
    pub fn number(self) -> i32 {
        match self {
            Self::Ok => 1,
            Self::OverLimit => 2,
        }
    }

    /// The word of the protocol.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::OverLimit => "OVER_LIMIT",
        }
    }
}
