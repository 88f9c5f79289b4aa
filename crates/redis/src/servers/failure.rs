//! Why a call failed, and whether the server may have acted on it.

use core::fmt;
use core::time::Duration;

use redis::{RedisError, ServerErrorKind};
use slidegate::{Error, ErrorKind};

/// A call without a usable reply.
#[derive(Debug, Clone)]
pub(crate) struct Failure {
    pub(crate) kind: FailureKind,
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
    pub(crate) fn new(kind: FailureKind, why: impl Into<String>) -> Self {
        Self { kind, why: why.into().into_boxed_str() }
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::new(FailureKind::Refused, why)
    }

    pub(crate) fn unknown(why: impl Into<String>) -> Self {
        Self::new(FailureKind::Unknown, why)
    }

    pub(crate) fn bad_reply(why: impl Into<String>) -> Self {
        Self::new(FailureKind::BadReply, why)
    }

    /// Whether it says something about the server, not only about this call.
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

    /// Whether the server may have acted on the call.
    pub(crate) fn is_unknown(&self) -> bool {
        self.kind == FailureKind::Unknown
    }
}

/// An error of a command that was sent. Errors that the server itself gave mean that nothing was
/// done: our scripts check everything before their first write.
impl From<RedisError> for Failure {
    fn from(error: RedisError) -> Self {
        let kind = match error.kind() {
            redis::ErrorKind::Server(kind) => server(kind, &error),
            redis::ErrorKind::Extension => match error.code() {
                // One key is damaged; or the server refuses to write, and still knows which keys
                // are over the limit: if that opened the breaker, a flood of keys could lift all
                // limits.
                Some("SLIDEGATE" | "OOM" | "MISCONF" | "NOREPLICAS") => FailureKind::BadReply,
                _ => FailureKind::Refused,
            },
            redis::ErrorKind::AuthenticationFailed => FailureKind::Refused,
            redis::ErrorKind::UnexpectedReturnType => FailureKind::BadReply,
            // The connection broke, or what came over it was not the protocol.
            _ => FailureKind::Unknown,
        };
        Self::new(kind, error.to_string())
    }
}

fn server(kind: ServerErrorKind, error: &RedisError) -> FailureKind {
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
        // Among them an error inside a script, and a value that is not a string.
        ServerErrorKind::ResponseError => FailureKind::BadReply,
        _ => FailureKind::Refused,
    }
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
