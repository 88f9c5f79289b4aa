//! Request bodies with a bounded size.

use core::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use tokio::time::timeout;

use super::error::{ApiError, ApiErrorKind, shown};
use crate::net::{BodyBudget, BodyShare};

pub(super) const JSON: &str = "application/json";

/// Bounds on a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits<'a> {
    /// The maximum size, in bytes.
    pub(crate) max: usize,
    /// The time for it over HTTP/2.
    pub(crate) timeout: Duration,
    /// The memory for all bodies that are not complete. `None` if `max` is so small that they do not
    /// count.
    pub(crate) budget: Option<&'a BodyBudget>,
}

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
    let is_http2 = request.version() == Version::HTTP_2;
    let body = request.body_mut();
    if !is_http2 {
        // The timeout of the connection covers the whole request.
        return read(body, limits).await;
    }
    // A slow body does not block other requests of an HTTP/2 connection, so it has its own timeout.
    let read = Box::pin(timeout(limits.timeout, read(body, limits)));
    read.await.unwrap_or_else(|_| Err(slow(limits.timeout)))
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

async fn read(body: &mut Incoming, limits: BodyLimits<'_>) -> Result<Bytes, ApiError> {
    let BodyLimits { max, budget, .. } = limits;
    if body.size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    // Most bodies arrive in one piece, which is not copied.
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut share = budget.map(BodyShare::new);
    while let Some(frame) = body.frame().await {
        let cut = |_| ApiError::malformed("the body is incomplete");
        let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
        if first.len() + all.len() + data.len() > max {
            return Err(too_large(max));
        }
        let added = share.as_mut().map_or(Ok(()), |share| share.add(data.len()));
        added.map_err(|full| ApiError::new(ApiErrorKind::Busy, full.to_string()))?;
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            all.extend_from_slice(&core::mem::take(&mut first));
            all.extend_from_slice(&data);
        }
        if body.is_end_stream() {
            break;
        }
    }
    Ok(if all.is_empty() { first } else { all.into() })
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
