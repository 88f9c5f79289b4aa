//! Why a request was refused: problem details of RFC 9457.
//!
//! Denials have those of `slidegate-http`; these are for requests that were never judged.

use core::fmt::Display;

use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use http_body_util::Full;
use slidegate::{Error, ErrorKind};

use super::Reply;
use super::answer::write_trace;
use super::json::Json;
use crate::engine::Caller;

/// A request that is not carried out.
#[derive(Debug)]
pub(crate) struct Refusal(Box<Parts>);

#[derive(Debug)]
struct Parts {
    kind: RefusalKind,
    detail: String,
    /// What was meant, perhaps.
    nearest: Option<String>,
    allow: Option<HeaderValue>,
}

/// What is wrong with a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalKind {
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
}

impl RefusalKind {
    /// All that the API answers with, for its documentation.
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
            Self::StoreFailed => StatusCode::SERVICE_UNAVAILABLE,
        }
    }

    fn type_uri(self) -> &'static str {
        match self {
            Self::Malformed => "urn:slidegate:malformed",
            Self::UnknownPolicy => "urn:slidegate:unknown-policy",
            Self::UnknownTier => "urn:slidegate:unknown-tier",
            Self::TooLarge => "urn:slidegate:too-large",
            Self::Unsupported => "urn:slidegate:unsupported",
            Self::NotReloaded => "urn:slidegate:not-reloaded",
            Self::StoreFailed => "urn:slidegate:store-failed",
            // The status says it all.
            _ => "about:blank",
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Malformed => "The request is malformed",
            Self::UnknownPolicy => "There is no such policy",
            Self::UnknownTier => "The policy has no such tier",
            Self::TooLarge => "The request is too large",
            Self::Unsupported => "The policy cannot do this",
            Self::NotReloaded => "The configuration was not reloaded",
            Self::StoreFailed => "The store gave no answer",
            other => other.status().canonical_reason().unwrap_or("Error"),
        }
    }
}

impl Refusal {
    #[cold]
    pub(crate) fn new(kind: RefusalKind, detail: impl Into<String>) -> Self {
        Self(Box::new(Parts { kind, detail: detail.into(), nearest: None, allow: None }))
    }

    pub(crate) fn malformed(detail: impl Into<String>) -> Self {
        Self::new(RefusalKind::Malformed, detail)
    }

    #[cold]
    pub(crate) fn wrong_method(method: &str, path: &str, allow: &str) -> Self {
        let detail = format!("{} does not work on {}: use {allow}", shown(method), shown(path));
        let mut refusal = Self::new(RefusalKind::WrongMethod, detail);
        refusal.0.allow = HeaderValue::from_str(allow).ok();
        refusal
    }

    /// A name that is not there, with the one that was perhaps meant.
    #[cold]
    pub(crate) fn unknown<'a>(
        kind: RefusalKind,
        what: &dyn Display,
        wanted: &str,
        names: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        let nearest = crate::nearest(wanted, names).map(str::to_owned);
        let detail = match &nearest {
            Some(name) => {
                format!("there is no {what} {}: did you mean {name:?}?", shown(wanted))
            }
            None => format!("there is no {what} {}", shown(wanted)),
        };
        let mut refusal = Self::new(kind, detail);
        refusal.0.nearest = nearest;
        refusal
    }

    pub(crate) fn status(&self) -> StatusCode {
        self.0.kind.status()
    }

    /// The same, of one of several.
    pub(crate) fn of(mut self, what: &dyn Display) -> Self {
        self.0.detail = format!("{what}: {}", self.0.detail);
        self
    }

    pub(crate) fn is_malformed(&self) -> bool {
        self.0.kind == RefusalKind::Malformed
    }

    /// As an object of JSON.
    pub(crate) fn write(&self, json: &mut Json, caller: Caller<'_>) {
        let kind = self.0.kind;
        json.open(b'{');
        json.name("type");
        json.text(kind.type_uri());
        json.name("title");
        json.text(kind.title());
        json.name("status");
        json.number(kind.status().as_u16().into());
        json.name("detail");
        json.text(&self.0.detail);
        if let Some(nearest) = &self.0.nearest {
            json.name("nearest");
            json.text(nearest);
        }
        write_trace(json, caller);
        json.close(b'}');
    }

    /// As an answer to whoever asked.
    pub(crate) fn reply(&self, caller: Caller<'_>) -> Reply {
        let mut json = Json::with_capacity(256);
        self.write(&mut json, caller);
        let mut reply = Response::new(Full::from(json.finish()));
        *reply.status_mut() = self.status();
        let headers = reply.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        if let Some(allow) = &self.0.allow {
            headers.insert(ALLOW, allow.clone());
        }
        match self.0.kind {
            RefusalKind::StoreFailed => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            }
            RefusalKind::Unauthorized => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            _ => {}
        }
        reply
    }
}

/// What a limit could not do.
impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            ErrorKind::Store => RefusalKind::StoreFailed,
            ErrorKind::Unsupported => RefusalKind::Unsupported,
            _ => RefusalKind::Malformed,
        };
        // What a store says may name servers: that is for logs.
        match kind {
            RefusalKind::StoreFailed => {
                Self::new(kind, "the store gave no answer: ask again later")
            }
            kind => Self::new(kind, error.to_string()),
        }
    }
}

/// The answer to a request whose handling panicked.
#[cold]
pub(super) fn panicked() -> Reply {
    Refusal::new(RefusalKind::Failed, "this request met an error of the server")
        .reply(Caller::INSIDE)
}

pub(crate) const PROBLEM_TYPE: &str = "application/problem+json";

/// A value from outside as it is shown: in quotes, and cut.
pub(crate) fn shown(value: &str) -> String {
    if value.chars().nth(SHOWN_MAX).is_none() {
        return format!("{value:?}");
    }
    let cut: String = value.chars().take(SHOWN_MAX).collect();
    format!("{cut:?}…")
}

const SHOWN_MAX: usize = 80;
