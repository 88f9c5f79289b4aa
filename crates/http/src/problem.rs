//! The reason for a denial, as the body of a response.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderValue, Response, StatusCode};

use crate::header::{self, seconds_up};
use crate::json::Object;
use crate::member::Member;
use crate::policy_decision::{PolicyDecision, Retry};

/// The reason for a denial: the body of a 429 or 503.
///
/// It names the policies that denied. It cannot contain the key, which may be an address or a
/// secret, because a decision does not contain it. `docs/headers.md` shows the bodies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    kind: ProblemKind,
    detail: String,
    violated: Vec<String>,
    retry_after: Option<u64>,
    trace_id: Option<Box<str>>,
}

/// The cause of a [`Problem`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ProblemKind {
    /// A quota is used up. 429.
    QuotaExceeded,
    /// The server is overloaded, regardless of the client. 503.
    Overloaded,
    /// The store failed and the policy's failure mode is to deny. 503.
    StoreFailed,
}

/// The format of a problem body.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Body {
    /// `application/problem+json`, RFC 9457.
    #[default]
    Problem,
    /// `application/json`: `error`, `message` and the same further members.
    Json,
}

/// The maximum length of a trace id in bytes. It may come from a client.
const TRACE_ID_MAX: usize = 128;

impl Problem {
    /// Creates the problem of these decisions. Returns `None` if all of them allow the request.
    ///
    /// The kind is [`ProblemKind::StoreFailed`] if no quota denied the request: with
    /// [`slidegate::FailureMode::Deny`], a degraded decision does not depend on the client.
    pub fn of(decisions: &[PolicyDecision<'_>]) -> Option<Self> {
        let mut denied = decisions.iter().filter(|decision| decision.is_denied());
        let first = denied.next()?;
        let retry = PolicyDecision::retry(decisions);
        if first.is_store_failure() && denied.all(PolicyDecision::is_store_failure) {
            return Some(Self { retry_after: retry.seconds(), ..Self::store_failed() });
        }
        // In shadow mode, a quota may be used up without denying a request.
        let mut members = Member::all(decisions.iter().filter(|decision| !decision.is_shadow()));
        members.retain(Member::is_violated);
        Some(Self {
            detail: detail(&members, retry),
            violated: members.iter().map(|member| member.name.to_string()).collect(),
            retry_after: retry.seconds(),
            ..Self::bare(ProblemKind::QuotaExceeded, "")
        })
    }

    /// Creates the problem of an overloaded server.
    pub fn overloaded() -> Self {
        Self::bare(ProblemKind::Overloaded, "the server is overloaded")
    }

    /// Creates the problem of a failed store whose failure mode is to deny.
    pub fn store_failed() -> Self {
        Self::bare(ProblemKind::StoreFailed, "limits cannot be checked at the moment")
    }

    fn bare(kind: ProblemKind, detail: &str) -> Self {
        let detail = detail.to_owned();
        Self { kind, detail, violated: Vec::new(), retry_after: None, trace_id: None }
    }

    /// Sets the time to retry, in whole seconds rounded up, at least one.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(seconds_up(after).max(1));
        self
    }

    /// Sets the id of the trace that this request belongs to. Longer ids are cut to 128 bytes.
    #[must_use]
    pub fn trace_id(mut self, id: &str) -> Self {
        let mut end = id.len().min(TRACE_ID_MAX);
        while !id.is_char_boundary(end) {
            end -= 1;
        }
        self.trace_id = Some(id[..end].into());
        self
    }

    /// Returns the cause.
    pub fn kind(&self) -> ProblemKind {
        self.kind
    }

    /// Returns the status of the response.
    pub fn status(&self) -> StatusCode {
        self.kind.text().status
    }

    /// Returns the names of the policies that denied, as in the `RateLimit` field.
    pub fn violated_policies(&self) -> &[String] {
        &self.violated
    }

    /// Returns the body.
    pub fn body(&self, body: Body) -> String {
        let (object, kind) = (Object::new(), self.kind.text());
        let mut object = match body {
            Body::Problem => object
                .text("type", kind.type_uri)
                .text("title", kind.title)
                .number("status", kind.status.as_u16().into())
                .text("detail", &self.detail),
            Body::Json => object.text("error", kind.word).text("message", &self.detail),
        };
        if self.kind == ProblemKind::QuotaExceeded {
            object = object.texts("violated-policies", &self.violated);
        }
        if let Some(seconds) = self.retry_after {
            object = object.number("retry_after", seconds);
        }
        if let Some(id) = &self.trace_id {
            object = object.text("trace_id", id);
        }
        object.finish()
    }

    /// Returns the whole response: status, body, content type, `Cache-Control: no-store`, and `Retry-After`
    /// if the wait is known. [`Fields`](crate::Fields) adds the status of the quotas.
    pub fn response(&self, body: Body) -> Response<String> {
        let mut response = Response::new(self.body(body));
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, body.content_type());
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, header::value(seconds));
        }
        response
    }
}

/// How a [`ProblemKind`] is written.
struct KindText {
    status: StatusCode,
    type_uri: &'static str,
    /// The title registered for the type.
    title: &'static str,
    /// `error` in plain JSON.
    word: &'static str,
}

impl ProblemKind {
    fn text(self) -> KindText {
        match self {
            Self::QuotaExceeded => KindText {
                status: StatusCode::TOO_MANY_REQUESTS,
                type_uri: "https://iana.org/assignments/http-problem-types#quota-exceeded",
                title: "Request cannot be satisfied as assigned quota has been exceeded",
                word: "quota_exceeded",
            },
            Self::Overloaded => KindText {
                status: StatusCode::SERVICE_UNAVAILABLE,
                type_uri: "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
                title: "Request cannot be satisfied due to temporary server capacity constraints",
                word: "overloaded",
            },
            Self::StoreFailed => KindText {
                status: StatusCode::SERVICE_UNAVAILABLE,
                // No registered type is more specific than the status.
                type_uri: "about:blank",
                title: "Service Unavailable",
                word: "store_failed",
            },
        }
    }
}

impl Body {
    /// Returns the value of `Content-Type`.
    pub fn content_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Problem => "application/problem+json",
            Self::Json => "application/json",
        })
    }
}

fn detail(members: &[Member<'_>], retry: Retry) -> String {
    let (before, after) = match retry {
        Retry::Never => ("more than is ever allowed", String::from("no wait helps")),
        Retry::After(seconds) => ("used up", format!("retry after {seconds} s")),
        Retry::Allowed => ("used up", String::from("retry later")),
    };
    // If the request can never be allowed, other quotas that are used up are not the reason.
    let guilty = members.iter().filter(|member| retry != Retry::Never || member.is_never());
    let guilty: Vec<String> = guilty.map(quota).collect();
    if guilty.is_empty() {
        return format!("denied; {after}");
    }
    format!("{before}: {}; {after}", guilty.join(", "))
}

fn quota(member: &Member<'_>) -> String {
    let (name, limit) = (&member.name, member.quota.limit());
    match member.window() {
        Some(seconds) => format!("{name} ({limit} in {seconds} s)"),
        None => format!("{name} ({limit})"),
    }
}
