//! The body of a request, whole and bounded.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;

use http::header::CONTENT_TYPE;
use http::{Request, Version};
use hyper::body::{Body as _, Bytes, Frame, Incoming};
use tokio::time::timeout;

use super::problem::{Refusal, RefusalKind, shown};
use super::serve::without_wakes;

/// The body of a request, whatever it says it is.
pub(super) async fn read_any(
    request: &mut Request<Incoming>,
    max: usize,
    body_timeout: Duration,
) -> Result<Bytes, Refusal> {
    if request.version() == Version::HTTP_2 {
        // One slow body does not hold up others there, so it has to be timed by itself. In HTTP/1
        // the connection's pulse does.
        let read = Box::pin(timeout(body_timeout, read(request.body_mut(), max, false)));
        return read.await.unwrap_or_else(|_| Err(slow(body_timeout)));
    }
    read(request.body_mut(), max, true).await
}

/// Whether a request says that its body is JSON, so that no form of a foreign page is taken for a
/// request: browsers ask before they send JSON.
#[inline]
pub(super) fn check_type(request: &Request<Incoming>) -> Result<(), Refusal> {
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

async fn read(body: &mut Incoming, max: usize, is_http1: bool) -> Result<Bytes, Refusal> {
    if body.size_hint().lower() > max as u64 {
        return Err(too_large(max));
    }
    let mut pieces = Pieces { first: Bytes::new(), all: Vec::new(), max, is_http1 };
    poll_fn(|cx| pieces.poll_all(body, cx)).await
}

/// What has come of a body.
struct Pieces {
    first: Bytes,
    /// The first and all others, once there are others.
    all: Vec<u8>,
    max: usize,
    /// In HTTP/1, taking a piece wakes the very connection that is being polled.
    is_http1: bool,
}

impl Pieces {
    /// The whole body, when it is there.
    #[inline]
    fn poll_all(
        &mut self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Bytes, Refusal>> {
        while let Some(frame) = ready!(self.poll_piece(body, cx)) {
            let Ok(frame) = frame else {
                return Poll::Ready(Err(Refusal::malformed("the body ended before it was whole")));
            };
            let Ok(data) = frame.into_data() else { continue };
            if self.first.len() + self.all.len() + data.len() > self.max {
                return Poll::Ready(Err(too_large(self.max)));
            }
            let is_first = self.first.is_empty() && self.all.is_empty();
            // Most bodies come in one piece, which is then taken as it is.
            match (is_first, body.is_end_stream()) {
                (true, true) => return Poll::Ready(Ok(data)),
                (true, false) => self.first = data,
                (false, is_last) => {
                    self.add(&data);
                    if is_last {
                        break;
                    }
                }
            }
        }
        let all = core::mem::take(&mut self.all);
        let first = core::mem::take(&mut self.first);
        Poll::Ready(Ok(if all.is_empty() { first } else { all.into() }))
    }

    /// The next piece. Of the last one the connection is not told, which would be polled once more.
    #[inline]
    fn poll_piece(
        &self,
        body: &mut Incoming,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        if !self.is_http1 {
            return Pin::new(body).poll_frame(cx);
        }
        let (piece, is_woken) = without_wakes(|| Pin::new(&mut *body).poll_frame(cx));
        // Before its last piece is taken, the connection has let go of the body: nothing is to be read.
        if is_woken && !body.is_end_stream() {
            cx.waker().wake_by_ref();
        }
        piece
    }

    fn add(&mut self, data: &[u8]) {
        self.all.extend_from_slice(&core::mem::take(&mut self.first));
        self.all.extend_from_slice(data);
    }
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
