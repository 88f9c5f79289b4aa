//! Why a request was not sent, or a setting refused.

use core::fmt;
use core::time::Duration;

/// Why a request was not sent, or a setting refused.
///
/// A server's refusal is not an `Error`: it is the response, handed on as it came.
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
    wait: Option<Duration>,
}

/// The family an [`Error`] belongs to.
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
    /// The family this error belongs to.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// How long until the request could go, where that is known.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    #[cold]
    pub(crate) fn setting(what: &str, value: impl fmt::Debug, allowed: &str) -> Self {
        let message = format!("{what} {value:?} is out of range: use {allowed}");
        Self { kind: ErrorKind::Setting, message: message.into(), wait: None }
    }

    #[cold]
    pub(crate) fn stopped(refusals: u64, wait: Duration) -> Self {
        let message = format!(
            "the server refused {refusals} requests, so nothing is sent to it for {wait:?}: \
             send less, or raise refusals_max"
        );
        Self { kind: ErrorKind::Stopped, message: message.into(), wait: Some(wait) }
    }

    #[cold]
    pub(crate) fn deadline(wait: Duration, left: Duration) -> Self {
        let message = format!(
            "the request would wait {wait:?} and may wait {left:?}: try later, or raise the deadline"
        );
        Self { kind: ErrorKind::Deadline, message: message.into(), wait: Some(wait) }
    }

    #[cold]
    pub(crate) fn waiters(waiters: usize) -> Self {
        let message = format!("{waiters} requests wait already: send less, or raise waiters_max");
        Self { kind: ErrorKind::Waiters, message: message.into(), wait: None }
    }

    #[cold]
    pub(crate) fn scopes(scopes: usize) -> Self {
        let message = format!(
            "all {scopes} scopes are held, stopped or in use: raise scopes_max, or make fewer scopes"
        );
        Self { kind: ErrorKind::Scopes, message: message.into(), wait: None }
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
