//! Why a call failed, and whether the server may have acted on it.

use core::fmt;
use core::time::Duration;

use redis::{RedisError, ServerErrorKind};
use slidegate::{DegradedReason, Error, ErrorKind};

/// A call without a usable reply.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
    reason: DegradedReason,
    /// The connection on which the call was sent, if it timed out there.
    pub(crate) connection: Option<u64>,
    why: Box<str>,
}

/// What is known of a failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// Nothing was sent, or the server said that it did nothing.
    Refused,
    /// Nothing was sent: the breaker is open for this long.
    Open(Duration),
    /// The server may or may not have acted. Never repeated.
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
    /// The server replied with an error of one key, a refusal to write, or something malformed.
    /// Nothing was done.
    BadReply,
}

impl Failure {
    pub(crate) fn new(kind: FailureKind, reason: DegradedReason, why: impl Into<String>) -> Self {
        Self { kind, reason, connection: None, why: why.into().into_boxed_str() }
    }

    /// Nothing was sent.
    pub(crate) fn refused(reason: DegradedReason, why: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, reason, why)
    }

    /// Nothing was sent, because there is no connection.
    pub(crate) fn unreachable(why: impl Into<String>) -> Self {
        Self::refused(DegradedReason::Unreachable, why)
    }

    /// The server may have acted on the call.
    pub(crate) fn unknown(reason: DegradedReason, why: impl Into<String>) -> Self {
        Self::new(FailureKind::Unknown, reason, why)
    }

    /// The call timed out on the connection with this number, if it has one. A later reply on the
    /// same connection proves that the server has executed it.
    pub(crate) fn timed_out_on(mut self, connection: Option<u64>) -> Self {
        self.connection = connection;
        self
    }

    pub(crate) fn bad_reply(why: impl Into<String>) -> Self {
        Self::new(FailureKind::BadReply, DegradedReason::BadReply, why)
    }

    /// A call was made outside of a tokio runtime, without which there are no timers and sockets.
    pub(crate) fn no_runtime() -> Self {
        let why = "there is no tokio runtime here: call it from a task of one";
        Self::refused(DegradedReason::NoRuntime, why)
    }

    /// A connection could not be made.
    pub(crate) fn of_connecting(address: &str, error: &RedisError) -> Self {
        let reason = match reason(error) {
            // Nothing was sent yet that a reply could be late for or wrong about.
            DegradedReason::Timeout => DegradedReason::Unreachable,
            DegradedReason::BadReply => DegradedReason::Rejected,
            reason => reason,
        };
        Self::refused(reason, format!("cannot connect to {address}: {error}"))
    }

    /// While the breaker is open for `left`, calls fail because of what opened it.
    pub(crate) fn while_open(&self, left: Duration) -> Self {
        let why = format!("not called for {left:?} after: {}", self.why);
        Self::new(FailureKind::Open(left), self.reason, why)
    }

    pub(crate) fn reason(&self) -> DegradedReason {
        self.reason
    }

    /// Whether it says something about the server, not only about this call: every reply that is
    /// not a decision, except for those about one key and for a server that is full.
    pub(crate) fn is_server_fault(&self) -> bool {
        match self.kind {
            FailureKind::Refused | FailureKind::Unknown | FailureKind::NotPrimary => true,
            FailureKind::Open(_)
            | FailureKind::NoScript
            | FailureKind::Moved { .. }
            | FailureKind::RedirectOnce { .. }
            | FailureKind::KeysSplit
            | FailureKind::BadReply => false,
        }
    }

    /// Whether another server may be the primary by now.
    pub(crate) fn suggests_failover(&self) -> bool {
        self.is_server_fault()
            || matches!(self.kind, FailureKind::Open(_))
            || self.reason == DegradedReason::NotWritable
    }

    /// Whether the server may have acted on the call.
    pub(crate) fn is_unknown(&self) -> bool {
        self.kind == FailureKind::Unknown
    }

    /// Whether the server cannot be used before somebody changes a setting.
    pub(crate) fn is_permanent(&self) -> bool {
        matches!(self.reason, DegradedReason::Unauthorized | DegradedReason::Tls)
    }
}

/// An error of a command that was sent. Errors that the server itself gave mean that nothing was
/// done: our scripts check everything before their first write.
impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let reason = reason(&error);
        let kind = match error.kind() {
            redis::ErrorKind::Server(kind) => server_kind(kind, reason, &error),
            redis::ErrorKind::Extension => match reason {
                // One key is damaged; or the server refuses to write, and still knows which keys
                // are over the limit: if that opened the breaker, a flood of keys could lift all
                // limits.
                DegradedReason::BadReply
                | DegradedReason::OutOfMemory
                | DegradedReason::NotWritable => FailureKind::BadReply,
                _ => FailureKind::Refused,
            },
            redis::ErrorKind::AuthenticationFailed => FailureKind::Refused,
            redis::ErrorKind::UnexpectedReturnType => FailureKind::BadReply,
            // The connection broke, or what came over it was not the protocol.
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

/// The cause of an error, whether it came from the server or from the connection.
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

/// Servers reply with `ERR` for an error inside a script, which concerns one key, as well as for what
/// they refuse to do for anybody, such as accepting one more client.
fn reason_of_response(error: &RedisError) -> DegradedReason {
    let text = error.to_string();
    if ["can't run this command", "can't access"].iter().any(|part| text.contains(part)) {
        return DegradedReason::Unauthorized;
    }
    let is_of_script = text.contains("user_script") || text.contains("rror running script");
    if is_of_script { DegradedReason::BadReply } else { DegradedReason::Rejected }
}

/// Whether the TLS library caused an error. The client library wraps it in an error of I/O.
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
