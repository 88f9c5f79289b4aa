//! The body of a request, whole and bounded.

use core::future::poll_fn;
use core::pin::Pin;
use core::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Version};
use hyper::body::{Body as _, Bytes, Incoming};
use tokio::time::timeout;

use super::problem::{Refusal, RefusalKind, shown};

/// The body of a request that says it is JSON.
#[inline]
pub(super) async fn read_json(
    request: &mut Request<Incoming>,
    max: usize,
    body_timeout: Duration,
) -> Result<Bytes, Refusal> {
    check_type(request)?;
    read_any(request, max, body_timeout).await
}

/// The body of a request, whatever it says it is.
#[inline]
pub(super) async fn read_any(
    request: &mut Request<Incoming>,
    max: usize,
    body_timeout: Duration,
) -> Result<Bytes, Refusal> {
    if request.version() == Version::HTTP_2 {
        // One slow body does not hold up others there, so it has to be timed by itself. In HTTP/1
        // the connection's pulse does.
        let read = Box::pin(timeout(body_timeout, read(request.body_mut(), max)));
        return read.await.unwrap_or_else(|_| Err(slow(body_timeout)));
    }
    read(request.body_mut(), max).await
}

/// So that no form of a foreign page is taken for a request: browsers ask before they send JSON.
#[inline]
fn check_type(request: &Request<Incoming>) -> Result<(), Refusal> {
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

pub(super) const JSON: &str = "application/json";

#[inline]
async fn read(body: &mut Incoming, max: usize) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    let mut first = Bytes::new();
    let mut all = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await {
        let Ok(frame) = frame else {
            return Err(Refusal::malformed("the body ended before it was whole"));
        };
        let Ok(data) = frame.into_data() else { continue };
        if first.len() + all.len() + data.len() > max {
            return Err(too_large(max));
        }
        // Most bodies come in one piece, which is then taken as it is.
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
fn too_large(max: usize) -> Refusal {
    let detail = format!("the body has more than {max} bytes: send less at a time");
    Refusal::new(RefusalKind::TooLarge, detail)
}

#[cold]
fn not_json(what: &str) -> Refusal {
    let detail = match what {
        "" => format!("there is no Content-Type: send {JSON} (curl --json)"),
        what => format!("Content-Type {} is not understood: send {JSON}", shown(what)),
    };
    Refusal::new(RefusalKind::NotJson, detail)
}

#[cold]
fn slow(after: Duration) -> Refusal {
    Refusal::new(RefusalKind::Slow, format!("the body was not there after {after:?}"))
}
