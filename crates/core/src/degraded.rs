//! The reason why a store did not decide.

use core::fmt;

/// The reason why the failure mode of a policy decided instead of the store.
///
/// See [`Decision::degraded_reason`](crate::Decision::degraded_reason). While a circuit breaker is
/// open, this is the reason that opened it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[repr(u8)]
pub enum DegradedReason {
    /// The store did not reply before the deadline. The check may have been counted.
    Timeout,
    /// The store could not be reached: no connection yet, refused, or lost.
    Unreachable,
    /// The store rejected the credentials, or the user lacks a permission.
    Unauthorized,
    /// The TLS handshake failed, for example because of an unknown certificate authority.
    Tls,
    /// The server does not accept writes: a replica, or a primary without enough replicas.
    NotWritable,
    /// The server is out of memory.
    OutOfMemory,
    /// The server replied with an error, such as too many clients or data that is still loading.
    Rejected,
    /// The reply is not a decision: the key holds something else, or the reply is malformed.
    BadReply,
    /// This process has too many calls in flight.
    InFlightMax,
    /// The store is available again, but the fallback still denies because of units that it
    /// admitted.
    Recovering,
    /// The check was made outside of an async runtime.
    NoRuntime,
    /// A store failed in another way.
    Other,
}

impl DegradedReason {
    /// All reasons, in the order of their numbers.
    pub const ALL: [Self; 12] = [
        Self::Timeout,
        Self::Unreachable,
        Self::Unauthorized,
        Self::Tls,
        Self::NotWritable,
        Self::OutOfMemory,
        Self::Rejected,
        Self::BadReply,
        Self::InFlightMax,
        Self::Recovering,
        Self::NoRuntime,
        Self::Other,
    ];

    /// Returns the name for metrics and logs, such as `unreachable`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::Unreachable => "unreachable",
            Self::Unauthorized => "unauthorized",
            Self::Tls => "tls",
            Self::NotWritable => "not_writable",
            Self::OutOfMemory => "out_of_memory",
            Self::Rejected => "rejected",
            Self::BadReply => "bad_reply",
            Self::InFlightMax => "in_flight_max",
            Self::Recovering => "recovering",
            Self::NoRuntime => "no_runtime",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for DegradedReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::DegradedReason;

    #[test]
    fn all_lists_every_reason_at_its_number() {
        for (number, reason) in DegradedReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
        assert_eq!(size_of::<Option<DegradedReason>>(), 1);
    }
}
