//! The error of a request that was not sent, or of an invalid setting.

use core::fmt;
use core::time::Duration;

/// The error of a request that was not sent, or of an invalid setting.
///
/// A refusal by a server is not an `Error`: the response is returned unchanged.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    wait: Option<Duration>,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting outside its range.
    Setting,
    /// The server kept refusing, so nothing is sent to it for a while.
    Stopped,
    /// The request would have to wait past its deadline.
    Deadline,
    /// Too many requests are waiting already.
    Waiters,
    /// Too many scopes are in use already.
    Scopes,
}

impl Error {
    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the time until the request could be sent, if known.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    #[cold]
    fn new(kind: ErrorKind, message: String, wait: Option<Duration>) -> Self {
        Self { kind, message: message.into(), wait }
    }

    pub(crate) fn setting(what: &str, value: impl fmt::Debug, allowed: &str) -> Self {
        let message = format!("{what} {value:?} is out of range: use {allowed}");
        Self::new(ErrorKind::Setting, message, None)
    }

    pub(crate) fn stopped(refusals: u64, wait: Duration) -> Self {
        let message = format!(
            "the server refused {refusals} requests, so nothing is sent to it for {wait:?}: \
             send less, or raise refusals_max"
        );
        Self::new(ErrorKind::Stopped, message, Some(wait))
    }

    pub(crate) fn deadline(wait: Duration, left: Duration) -> Self {
        let message = format!(
            "the request would wait {wait:?} and may wait {left:?}: try later, or raise the deadline"
        );
        Self::new(ErrorKind::Deadline, message, Some(wait))
    }

    pub(crate) fn waiters(waiters: usize) -> Self {
        let message = format!("{waiters} requests wait already: send less, or raise waiters_max");
        Self::new(ErrorKind::Waiters, message, None)
    }

    pub(crate) fn scopes(scopes: usize) -> Self {
        let message = format!(
            "all {scopes} scopes are held, stopped or in use: raise scopes_max, or use fewer scopes"
        );
        Self::new(ErrorKind::Scopes, message, None)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

impl core::error::Error for Error {}
