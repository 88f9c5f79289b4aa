//! Failed calls, and whether the server may have executed them.

use core::fmt;
use core::time::Duration;

use redis::{RedisError, ServerErrorKind};
use slidegate::{DegradedReason, Error, ErrorKind};

use crate::late::LateReply;

/// A call without a valid reply.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    reason: DegradedReason,
    /// The reply, if the call timed out and the reply may still arrive.
    pub(crate) late_reply: Option<LateReply>,
    why: Box<str>,
}

/// What is known about a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Nothing was sent, or the server did nothing.
    Refused,
    /// Nothing was sent: the connection was not yet open.
    Connecting,
    /// Nothing was sent: the breaker is open for this long.
    Open(Duration),
    /// The server may or may not have executed it. Never repeated.
    Unknown,
    /// The script is not loaded; nothing was done.
    NoScript,
    /// Another node has the slot; nothing was done.
    Moved { slot: u16, address: Box<str> },
    /// Another node has this key already (`ASK`); nothing was done.
    RedirectOnce { address: Box<str> },
    /// The keys are not all on one node, or not of one slot; nothing was done.
    KeysSplit,
    /// The node is a replica, or has lost its cluster; nothing was done.
    NotPrimary,
    /// The server replied with an error about one key, a refusal to write, or a malformed reply.
    /// Nothing was done.
    BadReply,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, reason: DegradedReason, why: impl Into<String>) -> Self {
        Self { kind, reason, late_reply: None, why: why.into().into_boxed_str() }
    }

    /// Creates a failure for which nothing was sent.
    pub(crate) fn refused(reason: DegradedReason, why: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, reason, why)
    }

    /// Creates a failure without a connection. Nothing was sent.
    pub(crate) fn unreachable(why: impl Into<String>) -> Self {
        Self::refused(DegradedReason::Unreachable, why)
    }

    /// Creates a failure without a connection, while one is being opened.
    pub(crate) fn connecting(why: impl Into<String>) -> Self {
        Self::new(FailureKind::Connecting, DegradedReason::Unreachable, why)
    }

    /// Creates a failure of a call that the server may have executed.
    pub(crate) fn unknown(reason: DegradedReason, why: impl Into<String>) -> Self {
        Self::new(FailureKind::Unknown, reason, why)
    }

    /// Returns the failure for one of the checks that the call carried.
    pub(crate) fn of_check(mut self, place: usize) -> Self {
        self.late_reply = self.late_reply.map(|reply| reply.of_check(place));
        self
    }

    /// Sets the reply that may still arrive.
    pub(crate) fn with_late_reply(mut self, late_reply: Option<LateReply>) -> Self {
        self.late_reply = late_reply;
        self
    }

    pub(crate) fn bad_reply(why: impl Into<String>) -> Self {
        Self::new(FailureKind::BadReply, DegradedReason::BadReply, why)
    }

    /// Creates the failure of a call outside of a tokio runtime, where there are no timers and
    /// sockets.
    pub(crate) fn no_runtime() -> Self {
        let why = "no tokio runtime: call it from a tokio task";
        Self::refused(DegradedReason::NoRuntime, why)
    }

    /// Creates the failure of a connection attempt.
    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Self {
        let reason = match reason(error) {
            // Nothing was sent yet, so this is not a late or wrong reply.
            DegradedReason::Timeout => DegradedReason::Unreachable,
            DegradedReason::BadReply => DegradedReason::Rejected,
            reason => reason,
        };
        Self::refused(reason, format!("cannot connect to {address}: {error}"))
    }

    /// Returns the failure of calls while the breaker is open for `left`, with the cause that
    /// opened it.
    pub(crate) fn while_open(&self, left: Duration) -> Self {
        let why = format!("not called for {left:?} after: {}", self.why);
        Self::new(FailureKind::Open(left), self.reason, why)
    }

    pub(crate) fn reason(&self) -> DegradedReason {
        self.reason
    }

    /// Returns `true` if the failure is about the server, not only about this call: every reply
    /// that is not a decision, except for those about one key and for a server that is full.
    pub(crate) fn is_server_fault(&self) -> bool {
        match self.kind {
            FailureKind::Refused
            | FailureKind::Connecting
            | FailureKind::Unknown
            | FailureKind::NotPrimary => true,
            FailureKind::Open(_)
            | FailureKind::NoScript
            | FailureKind::Moved { .. }
            | FailureKind::RedirectOnce { .. }
            | FailureKind::KeysSplit
            | FailureKind::BadReply => false,
        }
    }

    /// Returns `true` if another server may be the primary by now.
    pub(crate) fn suggests_failover(&self) -> bool {
        self.is_server_fault()
            || matches!(self.kind, FailureKind::Open(_))
            || self.reason == DegradedReason::NotWritable
    }

    /// Returns `true` if the server may have executed the call.
    pub(crate) fn is_unknown(&self) -> bool {
        self.kind == FailureKind::Unknown
    }

    /// Returns `true` if the call found no room in this process. The server is not involved, and
    /// decides for others.
    pub(crate) fn is_own_backlog(&self) -> bool {
        self.reason == DegradedReason::InFlightMax
    }

    /// Returns `true` if the server cannot be used before a setting is changed.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self.reason, DegradedReason::Unauthorized | DegradedReason::Tls)
    }
}

/// Converts the error of a command that was sent. Errors of the server mean that nothing was done,
/// because the scripts check everything before their first write.
impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let reason = reason(&error);
        let kind = match error.kind() {
            redis::ErrorKind::Server(kind) => server_kind(kind, reason, &error),
            redis::ErrorKind::Extension => match reason {
                // One key is damaged, or the server refuses to write, but still knows which keys
                // are over the limit. If that opened the breaker, a flood of keys could lift all
                // limits.
                DegradedReason::BadReply
                | DegradedReason::OutOfMemory
                | DegradedReason::NotWritable => FailureKind::BadReply,
                _ => FailureKind::Refused,
            },
            redis::ErrorKind::AuthenticationFailed => FailureKind::Refused,
            redis::ErrorKind::UnexpectedReturnType => FailureKind::BadReply,
            // The connection broke, or the data was not valid RESP.
            _ => FailureKind::Unknown,
        };
        Self::new(kind, reason, error.to_string())
    }
}

fn server_kind(kind: ServerErrorKind, reason: DegradedReason, error: &RedisError) -> FailureKind {
    match kind {
        ServerErrorKind::NoScript => FailureKind::NoScript,
        ServerErrorKind::Moved => match error.redirect_node() {
            Some((address, slot)) => FailureKind::Moved { slot, address: address.into() },
            None => FailureKind::NotPrimary,
        },
        ServerErrorKind::Ask => match error.redirect_node() {
            Some((address, _)) => FailureKind::RedirectOnce { address: address.into() },
            None => FailureKind::NotPrimary,
        },
        ServerErrorKind::TryAgain | ServerErrorKind::CrossSlot => FailureKind::KeysSplit,
        ServerErrorKind::ReadOnly | ServerErrorKind::MasterDown | ServerErrorKind::ClusterDown => {
            FailureKind::NotPrimary
        }
        _ if reason == DegradedReason::BadReply => FailureKind::BadReply,
        _ => FailureKind::Refused,
    }
}

/// Returns the cause of an error, from the server or from the connection.
fn reason(error: &RedisError) -> DegradedReason {
    match error.kind() {
        redis::ErrorKind::AuthenticationFailed => DegradedReason::Unauthorized,
        redis::ErrorKind::Server(kind) => match kind {
            ServerErrorKind::NoPerm => DegradedReason::Unauthorized,
            ServerErrorKind::ReadOnly
            | ServerErrorKind::MasterDown
            | ServerErrorKind::ClusterDown => DegradedReason::NotWritable,
            ServerErrorKind::ResponseError => reason_of_response(error),
            _ => DegradedReason::Rejected,
        },
        redis::ErrorKind::Extension => match error.code() {
            Some("NOAUTH" | "WRONGPASS") => DegradedReason::Unauthorized,
            Some("SLIDEGATE" | "WRONGTYPE") => DegradedReason::BadReply,
            Some("OOM") => DegradedReason::OutOfMemory,
            Some("MISCONF" | "NOREPLICAS") => DegradedReason::NotWritable,
            _ => DegradedReason::Rejected,
        },
        redis::ErrorKind::UnexpectedReturnType | redis::ErrorKind::Parse => {
            DegradedReason::BadReply
        }
        _ if is_of_tls(error) => DegradedReason::Tls,
        _ if error.is_timeout() => DegradedReason::Timeout,
        _ => DegradedReason::Unreachable,
    }
}

/// Returns the cause of an `ERR` reply. Servers send it for an error inside a script, which
/// concerns one key, and for general refusals, such as too many clients.
fn reason_of_response(error: &RedisError) -> DegradedReason {
    let text = error.to_string();
    if ["can't run this command", "can't access"].iter().any(|part| text.contains(part)) {
        return DegradedReason::Unauthorized;
    }
    let is_of_script = text.contains("user_script") || text.contains("rror running script");
    if is_of_script { DegradedReason::BadReply } else { DegradedReason::Rejected }
}

/// Returns `true` if the TLS library caused an error. The client library wraps it in an I/O error.
#[cfg(feature = "tls")]
fn is_of_tls(error: &RedisError) -> bool {
    type Shared = std::sync::Arc<dyn std::error::Error + Send + Sync>;
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<Shared>())
        .and_then(|shared| shared.downcast_ref::<std::io::Error>())
        .and_then(std::io::Error::get_ref)
        .and_then(|inner| inner.downcast_ref::<rustls::Error>())
        .is_some()
}

#[cfg(not(feature = "tls"))]
fn is_of_tls(_: &RedisError) -> bool {
    false
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let done = if self.is_unknown() { " (it may have been counted)" } else { "" };
        write!(f, "Redis: {}{done}", self.why)
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        Self::new(ErrorKind::Store, failure.to_string())
    }
}
