//! Request bodies with a bounded size.

use core::time::Duration;

use http::Request;
use http::header::CONTENT_TYPE;
use hyper::body::{Bytes, Incoming};

use super::error::{ApiError, ApiErrorKind, shown};
use crate::net::{BodyError, BodyLimits, read_body};

pub(super) const JSON: &str = "application/json";

/// Reads a body whose type is JSON.
pub(crate) async fn read_json(
    request: &mut Request<Incoming>,
    limits: BodyLimits<'_>,
) -> Result<Bytes, ApiError> {
    check_type(request)?;
    read_any(request, limits).await
}

/// Reads a body of any type.
pub(super) async fn read_any(
    request: &mut Request<Incoming>,
    limits: BodyLimits<'_>,
) -> Result<Bytes, ApiError> {
    let (max, timeout, fields) = (limits.max, limits.timeout, request.headers().len());
    read_body(request.body_mut(), fields, limits).await.map_err(|error| match error {
        BodyError::TooLarge => too_large(max),
        BodyError::UsedUp(used_up) => ApiError::new(ApiErrorKind::Busy, used_up.to_string()),
        BodyError::Slow => slow(timeout),
        BodyError::Broken => ApiError::malformed("the body is incomplete"),
    })
}

/// Requires `application/json`, so that a form on another site cannot send a request: browsers send
/// JSON to another site only after a preflight.
fn check_type(request: &Request<Incoming>) -> Result<(), ApiError> {
    match request.headers().get(CONTENT_TYPE) {
        Some(value) if value == JSON => Ok(()),
        Some(value) => {
            let text = value.to_str().unwrap_or_default();
            let name = text.split(';').next().unwrap_or_default().trim();
            if name.eq_ignore_ascii_case(JSON) { Ok(()) } else { Err(not_json(text)) }
        }
        None => Err(not_json("")),
    }
}

#[cold]
fn too_large(max: usize) -> ApiError {
    let detail = format!("the body has more than {max} bytes: send fewer checks per request");
    ApiError::new(ApiErrorKind::TooLarge, detail)
}

#[cold]
fn not_json(what: &str) -> ApiError {
    let detail = match what {
        "" => format!("missing Content-Type: send {JSON} (curl --json)"),
        what => format!("unsupported Content-Type {}: send {JSON}", shown(what)),
    };
    ApiError::new(ApiErrorKind::NotJson, detail)
}

#[cold]
fn slow(after: Duration) -> ApiError {
    ApiError::new(ApiErrorKind::Slow, format!("the body was not complete after {after:?}"))
}
