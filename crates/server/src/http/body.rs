//! Request bodies with a bounded size.

use core::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Version};
use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use tokio::time::timeout;

use super::error::{ApiError, ApiErrorKind, shown};

pub(super) const JSON: &str = "application/json";

/// Reads a body whose type is JSON, of at most `max` bytes. `body_timeout` is for HTTP/2.
pub(crate) async fn read_json(
    request: &mut Request<Incoming>,
    max: usize,
    body_timeout: Duration,
) -> Result<Bytes, ApiError> {
    check_type(request)?;
    read_any(request, max, body_timeout).await
}

/// Reads a body of any type and at most `max` bytes.
pub(super) async fn read_any(
    request: &mut Request<Incoming>,
    max: usize,
    body_timeout: Duration,
) -> Result<Bytes, ApiError> {
    let is_http2 = request.version() == Version::HTTP_2;
    let body = request.body_mut();
    if !is_http2 {
        // The timeout of the connection covers the whole request.
        return read(body, max).await;
    }
    // A slow body does not block other requests of an HTTP/2 connection, so it has its own timeout.
    let read = Box::pin(timeout(body_timeout, read(body, max)));
    read.await.unwrap_or_else(|_| Err(slow(body_timeout)))
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

async fn read(body: &mut Incoming, max: usize) -> Result<Bytes, ApiError> {
    if body.size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    // Most bodies arrive in one piece, which is not copied.
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = body.frame().await {
        let cut = |_| ApiError::malformed("the body is incomplete");
        let Ok(data) = frame.map_err(cut)?.into_data() else { continue };
        if first.len() + all.len() + data.len() > max {
            return Err(too_large(max));
        }
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
