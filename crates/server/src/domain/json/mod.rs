//! The protocol as JSON over HTTP, for callers without gRPC.

pub(crate) mod read;
mod write;

use slidegate_gate::Caller;

use super::{AnswerError, Code, Domains, Options, answer};
use crate::access::AccessError;
use crate::grpc::message::RateLimitRequest;
use crate::json_object::{Object, without_values};

/// An answer over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonReply {
    /// The status code.
    pub status: u16,
    /// Names in small letters, and values.
    pub headers: &'static [(&'static str, &'static str)],
    /// The body.
    pub body: Vec<u8>,
}

const TEXT: &[(&str, &str)] = &[("content-type", "text/plain; charset=utf-8")];
const JSON: &[(&str, &str)] = &[("content-type", "application/json")];
/// A denial applies only now, so it must not be cached.
const DENIED: &[(&str, &str)] =
    &[("content-type", "application/json"), ("cache-control", "no-store")];

/// Answers `POST /json`: a `RateLimitRequest` in the JSON form of protocol buffers. 200 if it
/// passes, 429 if not, 400 if it is malformed, 503 if a store failed and the failure mode is an error.
/// 401 or 403 if it gives back units and `may_give_back` refuses that. The caller bounds the size of the
/// body.
pub async fn json(
    domains: &Domains,
    options: &Options,
    body: &[u8],
    caller: Caller<'_>,
    may_give_back: Result<(), AccessError>,
) -> JsonReply {
    let request = match serde_json::from_slice(body) {
        Ok(Object(request)) => request,
        Err(error) => {
            domains.statistics().service_error.add(1);
            return JsonReply::wrong(&without_values(&error.to_string()));
        }
    };
    let answered = match RateLimitRequest::limit_request(&request) {
        Ok(limit_request) => match may_give_back {
            Err(refusal) if limit_request.gives_back() => {
                domains.statistics().service_error.add(1);
                return JsonReply::refused(refusal);
            }
            _ => answer(domains, &limit_request, options, caller).await,
        },
        Err(invalid) => {
            domains.statistics().service_error.add(1);
            Err(invalid.into())
        }
    };
    match answered {
        Ok(response) => {
            let body = write::response(&response).to_string().into_bytes();
            match response.overall {
                Code::Ok => JsonReply { status: 200, headers: JSON, body },
                Code::OverLimit => JsonReply { status: 429, headers: DENIED, body },
            }
        }
        Err(AnswerError::Invalid(invalid)) => JsonReply::wrong(&invalid),
        Err(failed @ AnswerError::StoreFailed) => {
            JsonReply { status: 503, ..JsonReply::wrong(&failed) }
        }
    }
}

/// Answers `GET /healthcheck`: 200 or 500.
pub fn healthcheck(is_healthy: bool) -> JsonReply {
    let status = if is_healthy { 200 } else { 500 };
    let body = if is_healthy { b"OK".to_vec() } else { Vec::new() };
    JsonReply { status, headers: TEXT, body }
}

impl JsonReply {
    fn refused(refusal: AccessError) -> Self {
        let status = if refusal.needs_token() { 401 } else { 403 };
        Self { status, ..Self::wrong(&refusal) }
    }

    fn wrong(error: &dyn core::fmt::Display) -> Self {
        Self { status: 400, headers: TEXT, body: format!("{error}\n").into_bytes() }
    }
}
