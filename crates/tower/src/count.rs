//! Responses that count.

use core::fmt;
use std::sync::Arc;

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

/// Selects the responses that count.
///
/// Units are taken before a request is served. If the response does not count, exactly those units
/// are refunded. Checking first and counting afterwards would allow any number of parallel requests
/// before the first of them is counted.
///
/// A request that is cancelled before it has a response stays counted.
#[derive(Clone, Default)]
pub struct Count(Rule);

#[derive(Clone, Default)]
enum Rule {
    #[default]
    All,
    Failed,
    Successful,
    When(Arc<dyn Fn(&Served<'_>) -> bool + Send + Sync>),
}

/// The result of a request.
#[derive(Debug, Clone, Copy)]
pub struct Served<'a> {
    /// `None` if the service failed without a response.
    pub(crate) response: Option<(StatusCode, &'a HeaderMap)>,
}

impl Count {
    /// Counts every response.
    pub fn all() -> Self {
        Self(Rule::All)
    }

    /// Counts only failures, as for a login page: see [`Served::is_failure`].
    pub fn failed() -> Self {
        Self(Rule::Failed)
    }

    /// Counts only successes: a client is not charged for errors of the server, nor for its own.
    pub fn successful() -> Self {
        Self(Rule::Successful)
    }

    /// Counts the responses for which a function returns `true`.
    pub fn when(counts: impl Fn(&Served<'_>) -> bool + Send + Sync + 'static) -> Self {
        Self(Rule::When(Arc::new(counts)))
    }

    pub(crate) fn is_all(&self) -> bool {
        matches!(self.0, Rule::All)
    }

    pub(crate) fn counts(&self, served: &Served<'_>) -> bool {
        match &self.0 {
            Rule::All => true,
            Rule::Failed => served.is_failure(),
            Rule::Successful => !served.is_failure(),
            Rule::When(counts) => counts(served),
        }
    }
}

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_OK: HeaderValue = HeaderValue::from_static("0");

impl<'a> Served<'a> {
    /// Returns the status, or `None` if the service failed without a response.
    pub fn status(&self) -> Option<StatusCode> {
        self.response.map(|(status, _)| status)
    }

    /// Returns the header fields of the response.
    pub fn headers(&self) -> Option<&'a HeaderMap> {
        self.response.map(|(_, headers)| headers)
    }

    /// Returns `true` if there is no response, its status is 400 or above, or it is a gRPC response
    /// without a message whose status is not OK.
    ///
    /// The status of a gRPC response with a message comes after the message, which is too late.
    pub fn is_failure(&self) -> bool {
        let Some((status, headers)) = self.response else { return true };
        status.as_u16() >= 400 || headers.get(GRPC_STATUS).is_some_and(|status| *status != GRPC_OK)
    }
}

impl fmt::Debug for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Rule::All => "Count::all",
            Rule::Failed => "Count::failed",
            Rule::Successful => "Count::successful",
            Rule::When(_) => "Count::when",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recognizes_failures() {
        fn of(status: StatusCode, headers: &HeaderMap) -> Served<'_> {
            Served { response: Some((status, headers)) }
        }
        let mut grpc = HeaderMap::new();
        let none = HeaderMap::new();
        assert!(!of(StatusCode::OK, &none).is_failure());
        assert!(!of(StatusCode::FOUND, &none).is_failure());
        assert!(of(StatusCode::UNAUTHORIZED, &none).is_failure());
        assert!(Served { response: None }.is_failure());
        grpc.insert("grpc-status", HeaderValue::from_static("16"));
        assert!(of(StatusCode::OK, &grpc).is_failure());
        grpc.insert("grpc-status", HeaderValue::from_static("0"));
        assert!(!of(StatusCode::OK, &grpc).is_failure());
    }
}
