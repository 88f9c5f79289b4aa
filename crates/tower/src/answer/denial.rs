//! The reason for a denial.

use core::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderName, HeaderValue, Response, StatusCode};
use slidegate::Algorithm;
use slidegate_http::{Body, Problem, ProblemKind, wait_seconds};

use crate::peer;

/// The reason why a request was denied.
#[derive(Debug, Clone)]
pub struct Denial {
    cause: Cause,
    fields: Vec<(HeaderName, HeaderValue)>,
    retry_after: Option<Duration>,
}

#[derive(Debug, Clone)]
enum Cause {
    Problem(Problem),
    NoKey,
    NoPeer,
}

/// The kind of a denial, which determines its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DenialKind {
    /// A quota is used up: 429.
    QuotaExceeded,
    /// The store failed, and the failure mode is to deny: 503.
    StoreFailed,
    /// The server is overloaded: 503.
    Overloaded,
    /// The request has no key, and the rule denies such requests, or it has several: 403.
    NoKey,
    /// The server does not pass on peer addresses, which is an error in its setup: 500.
    NoPeer,
}

impl Denial {
    pub(crate) fn of(problem: Problem, retry_after: Option<Duration>) -> Self {
        Self::new(Cause::Problem(problem), retry_after)
    }

    pub(crate) fn no_key() -> Self {
        Self::new(Cause::NoKey, None)
    }

    pub(crate) fn no_peer() -> Self {
        Self::new(Cause::NoPeer, None)
    }

    /// Creates a denial with `Cache-Control: no-store`, and `Retry-After` if the wait is known.
    fn new(cause: Cause, retry_after: Option<Duration>) -> Self {
        let mut fields = vec![(CACHE_CONTROL, HeaderValue::from_static("no-store"))];
        if let Some(after) = retry_after {
            let seconds = wait_seconds(after, after, Algorithm::Log).max(1);
            fields.push((RETRY_AFTER, HeaderValue::from(seconds)));
        }
        Self { cause, fields, retry_after }
    }

    /// Replaces all fields.
    pub(crate) fn with_fields(mut self, fields: Vec<(HeaderName, HeaderValue)>) -> Self {
        self.fields = fields;
        self
    }

    /// Returns the kind of the denial.
    pub fn kind(&self) -> DenialKind {
        match &self.cause {
            Cause::Problem(problem) => match problem.kind() {
                ProblemKind::QuotaExceeded => DenialKind::QuotaExceeded,
                ProblemKind::Overloaded => DenialKind::Overloaded,
                _ => DenialKind::StoreFailed,
            },
            Cause::NoKey => DenialKind::NoKey,
            Cause::NoPeer => DenialKind::NoPeer,
        }
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        match &self.cause {
            Cause::Problem(problem) => problem.status(),
            Cause::NoKey => StatusCode::FORBIDDEN,
            Cause::NoPeer => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// Returns the reason as one sentence. It names policies, never keys.
    pub fn message(&self) -> String {
        match &self.cause {
            Cause::Problem(problem) => match problem.kind() {
                ProblemKind::QuotaExceeded => {
                    format!("used up: {}", problem.violated_policies().join(", "))
                }
                ProblemKind::Overloaded => "the server is overloaded".to_owned(),
                _ => "limits cannot be checked at the moment".to_owned(),
            },
            Cause::NoKey => NO_KEY.to_owned(),
            Cause::NoPeer => peer::UNKNOWN.to_owned(),
        }
    }

    /// Returns the names of the policies that denied.
    pub fn violated_policies(&self) -> &[String] {
        match &self.cause {
            Cause::Problem(problem) => problem.violated_policies(),
            Cause::NoKey | Cause::NoPeer => &[],
        }
    }

    /// Returns the time to wait, or `None` if no wait would help or the time is unknown.
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the header fields of the response: the status of the quotas, `Retry-After` and
    /// `Cache-Control: no-store`, as chosen by
    /// [`RateLimitLayerBuilder::fields`](crate::RateLimitLayerBuilder::fields).
    ///
    /// The layer adds them to the response of an [`Answer`](crate::Answer), so they need not be
    /// copied.
    pub fn fields(&self) -> &[(HeaderName, HeaderValue)] {
        &self.fields
    }

    /// Returns the body.
    pub fn body(&self, form: Body) -> String {
        match &self.cause {
            Cause::Problem(problem) => problem.body(form),
            Cause::NoKey => plain(form, "Forbidden", "no_key", self.status(), NO_KEY),
            Cause::NoPeer => {
                plain(form, "Internal Server Error", "no_peer", self.status(), peer::UNKNOWN)
            }
        }
    }

    /// Returns the whole response, with a body in this form.
    pub fn response(&self, form: Body) -> Response<String> {
        let mut response = Response::new(self.body(form));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, form.content_type());
        for (name, value) in &self.fields {
            headers.insert(name, value.clone());
        }
        response
    }
}

const NO_KEY: &str = "the request has no key to be counted by, or several";

/// Formats constant texts, which need no escapes.
fn plain(form: Body, title: &str, word: &str, status: StatusCode, detail: &str) -> String {
    let status = status.as_u16();
    match form {
        Body::Problem => format!(
            r#"{{"type":"about:blank","title":"{title}","status":{status},"detail":"{detail}"}}"#
        ),
        _ => format!(r#"{{"error":"{word}","message":"{detail}"}}"#),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_are_json() {
        for denial in [Denial::no_key(), Denial::no_peer()] {
            for form in [Body::Problem, Body::Json] {
                let body = denial.body(form);
                let value: serde_json::Value = serde_json::from_str(&body).unwrap();
                let detail = value.get("detail").or(value.get("message")).unwrap();
                assert_eq!(detail.as_str(), Some(denial.message().as_str()), "{body}");
            }
        }
    }
}
