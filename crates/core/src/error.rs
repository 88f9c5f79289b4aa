//! Errors of the library.

use core::fmt;

/// The error of an invalid value or a failed operation.
///
/// A denial is never an `Error`: it is a [`Decision`](crate::Decision). An `Error` means that a
/// value is invalid, that an algorithm does not support an operation, or that a store failed.
///
/// ```
/// use slidegate::{ErrorKind, Quota};
/// use std::time::Duration;
///
/// let error = Quota::new(u64::MAX, Duration::from_secs(60)).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Limit);
/// let message = "limit 18446744073709551615 is out of range: use 0 to 9007199254740991";
/// assert_eq!(error.to_string(), message);
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: Box<str>,
}

/// The kind of an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A limit above 2^53 - 1.
    Limit,
    /// A window of zero, over ten years, or too long for the tick.
    Window,
    /// A cost outside 1 to 2^53 - 1.
    Cost,
    /// A policy with no quota, too many quotas, or an invalid name.
    Policy,
    /// A setting of the limiter outside its range.
    Setting,
    /// The algorithm does not support the operation.
    Unsupported,
    /// Too many callers are waiting already.
    Waiters,
    /// The state does not fit into the memory limit.
    Memory,
    /// A snapshot that is damaged, truncated, foreign or of another version.
    Snapshot,
    /// The store could not be reached or sent an invalid reply.
    Store,
}

impl Error {
    /// Creates an error of a kind. The message should name the value, the bound and the fix.
    #[cold]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into().into_boxed_str() }
    }

    /// Returns the kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns `true` if the store failed, so that the policy's failure mode decides.
    pub fn is_store(&self) -> bool {
        self.kind == ErrorKind::Store
    }

    #[cold]
    pub(crate) fn out_of_range(
        kind: ErrorKind,
        what: &str,
        value: impl fmt::Display,
        allowed: &str,
    ) -> Self {
        Self::new(kind, format!("{what} {value} is out of range: use {allowed}"))
    }

    /// Returns the item of `all` with this name, or an error that lists the names.
    pub(crate) fn find_name<T: Copy>(
        what: &str,
        name: &str,
        all: &[T],
        name_of: fn(T) -> &'static str,
    ) -> Result<T, Self> {
        all.iter().copied().find(|one| name_of(*one) == name).ok_or_else(|| {
            let names: Vec<_> = all.iter().map(|one| name_of(*one)).collect();
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            let message = format!("unknown {what} {name:?}: use {} or {last}", others.join(", "));
            Self::new(ErrorKind::Policy, message)
        })
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
