//! Errors of the HTTP API as problem details (RFC 9457).
//!
//! Denials use the problems of `slidegate-http`. These are for requests that were not checked.

use core::fmt::Display;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, StatusCode};
use serde::Serialize;
use slidegate::{Error, ErrorKind};
use slidegate_gate::Caller;

use super::Reply;
use super::reply::json;
use crate::access::{AccessError, ForeignRequest};

/// The reason why a request failed.
#[derive(Debug)]
pub(crate) struct ApiError(Box<Details>);

#[derive(Debug)]
struct Details {
    kind: ApiErrorKind,
    detail: String,
    /// The known name most similar to an unknown one.
    nearest: Option<String>,
    allow: Option<HeaderValue>,
}

/// The kind of an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiErrorKind {
    Malformed,
    Unauthorized,
    Forbidden,
    UnknownPath,
    UnknownPolicy,
    UnknownTier,
    WrongMethod,
    Slow,
    TooLarge,
    NotJson,
    Unsupported,
    NotReloaded,
    Failed,
    StoreFailed,
    Busy,
}

impl ApiErrorKind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Self::Malformed => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Forbidden => StatusCode::FORBIDDEN,
            Self::UnknownPath | Self::UnknownPolicy | Self::UnknownTier => StatusCode::NOT_FOUND,
            Self::WrongMethod => StatusCode::METHOD_NOT_ALLOWED,
            Self::Slow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::NotJson => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Unsupported => StatusCode::CONFLICT,
            Self::NotReloaded => StatusCode::UNPROCESSABLE_ENTITY,
            Self::Failed => StatusCode::INTERNAL_SERVER_ERROR,
            Self::StoreFailed | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    /// Returns the type and title of the problem, or `None` if the status is enough.
    fn problem_type(self) -> Option<(&'static str, &'static str)> {
        Some(match self {
            Self::Malformed => ("urn:slidegate:malformed", "The request is malformed"),
            Self::UnknownPolicy => ("urn:slidegate:unknown-policy", "Unknown policy"),
            Self::UnknownTier => ("urn:slidegate:unknown-tier", "Unknown tier"),
            Self::TooLarge => ("urn:slidegate:too-large", "The request is too large"),
            Self::Unsupported => {
                ("urn:slidegate:unsupported", "The policy does not support this operation")
            }
            Self::NotReloaded => {
                ("urn:slidegate:not-reloaded", "The configuration was not reloaded")
            }
            Self::StoreFailed => ("urn:slidegate:store-failed", "The store did not reply"),
            Self::Unauthorized
            | Self::Forbidden
            | Self::UnknownPath
            | Self::WrongMethod
            | Self::Slow
            | Self::NotJson
            | Self::Failed
            | Self::Busy => return None,
        })
    }

    pub(crate) fn title(self) -> &'static str {
        let reason = || self.status().canonical_reason().unwrap_or("Error");
        self.problem_type().map_or_else(reason, |(_, title)| title)
    }
}

impl ApiError {
    #[cold]
    pub(crate) fn new(kind: ApiErrorKind, detail: impl Into<String>) -> Self {
        Self(Box::new(Details { kind, detail: detail.into(), nearest: None, allow: None }))
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(ApiErrorKind::Malformed, detail)
    }

    #[cold]
    pub(crate) fn wrong_method(method: &str, path: &str, allow: &str) -> Self {
        let detail =
            format!("method {} is not allowed for {}: use {allow}", shown(method), shown(path));
        let mut error = Self::new(ApiErrorKind::WrongMethod, detail);
        error.0.allow = HeaderValue::from_str(allow).ok();
        error
    }

    /// Creates an error for an unknown name, with the most similar known one.
    #[cold]
    pub(crate) fn unknown<'a>(
        kind: ApiErrorKind,
        what: &dyn Display,
        wanted: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = crate::nearest(wanted, names).map(str::to_owned);
        let hint = match &nearest {
            Some(name) => format!(": did you mean {name:?}?"),
            None => String::new(),
        };
        let mut error = Self::new(kind, format!("unknown {what} {}{hint}", shown(wanted)));
        error.0.nearest = nearest;
        error
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.kind.status()
    }

    /// Names the part of the request that the error is about.
    pub(crate) fn in_part(mut self, part: &dyn Display) -> Self {
        self.0.detail = format!("{part}: {}", self.0.detail);
        self
    }

    pub(crate) fn is_malformed(&self) -> bool {
        self.0.kind == ApiErrorKind::Malformed
    }

    /// Returns the members of the problem.
    pub(crate) fn body<'a>(&'a self, caller: Caller<'a>) -> ErrorBody<'a> {
        let Details { kind, detail, nearest, .. } = &*self.0;
        ErrorBody {
            type_uri: kind.problem_type().map_or("about:blank", |(uri, _)| uri),
            title: kind.title(),
            status: kind.status().as_u16(),
            detail,
            nearest: nearest.as_deref(),
            trace_id: caller.trace().map(|trace| trace.trace_id()),
        }
    }

    pub(crate) fn reply(&self, caller: Caller<'_>) -> Reply {
        let mut reply = json(&self.body(caller));
        *reply.status_mut() = self.status();
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(allow) = &self.0.allow {
            headers.insert(ALLOW, allow.clone());
        }
        if self.0.kind == ApiErrorKind::StoreFailed {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        if self.0.kind == ApiErrorKind::Unauthorized {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        reply
    }
}

/// A problem as JSON.
#[derive(Debug, Serialize)]
pub(crate) struct ErrorBody<'a> {
    #[serde(rename = "type")]
    type_uri: &'static str,
    title: &'static str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    nearest: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace_id: Option<&'a str>,
}

impl From<AccessError> for ApiError {
    fn from(refusal: AccessError) -> Self {
        let kind = if refusal.needs_token() {
            ApiErrorKind::Unauthorized
        } else {
            ApiErrorKind::Forbidden
        };
        Self::new(kind, refusal.to_string())
    }
}

impl From<ForeignRequest> for ApiError {
    fn from(foreign: ForeignRequest) -> Self {
        Self::new(ApiErrorKind::Forbidden, foreign.to_string())
    }
}

impl From<Error> for ApiError {
    fn from(error: Error) -> Self {
        match error.kind() {
            // The message of a store may name servers, so it is only logged.
            ErrorKind::Store => {
                Self::new(ApiErrorKind::StoreFailed, "the store did not reply: retry later")
            }
            ErrorKind::Unsupported => Self::new(ApiErrorKind::Unsupported, error.to_string()),
            // Kinds of another crate, which may add more.
            _ => Self::malformed(error.to_string()),
        }
    }
}

/// Returns the reply to a request whose handler panicked.
#[cold]
pub(super) fn panicked() -> Reply {
    ApiError::new(ApiErrorKind::Failed, "internal server error").reply(Caller::IN_PROCESS)
}

pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// Quotes a client's value for a message, at most 80 characters.
pub(crate) fn shown(value: &str) -> String {
    if value.chars().nth(SHOWN_MAX).is_none() {
        return format!("{value:?}");
    }
    let cut: String = value.chars().take(SHOWN_MAX).collect();
    format!("{cut:?}…")
}

const SHOWN_MAX: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [ApiErrorKind; 15] = [
        ApiErrorKind::Malformed,
        ApiErrorKind::Unauthorized,
        ApiErrorKind::Forbidden,
        ApiErrorKind::UnknownPath,
        ApiErrorKind::UnknownPolicy,
        ApiErrorKind::UnknownTier,
        ApiErrorKind::WrongMethod,
        ApiErrorKind::Slow,
        ApiErrorKind::TooLarge,
        ApiErrorKind::NotJson,
        ApiErrorKind::Unsupported,
        ApiErrorKind::NotReloaded,
        ApiErrorKind::Failed,
        ApiErrorKind::StoreFailed,
        ApiErrorKind::Busy,
    ];

    #[test]
    fn every_problem_is_on_the_page_of_errors() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/errors.md");
        let page = std::fs::read_to_string(path).unwrap();
        for kind in ALL {
            let uri = kind.problem_type().map_or("about:blank", |(uri, _)| uri);
            let row = format!("| {} | `{uri}` | {} |", kind.status().as_u16(), kind.title());
            assert!(page.contains(&row), "docs/reference/errors.md does not contain `{row}`");
        }
    }
}
