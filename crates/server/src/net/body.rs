//! Reads the body of a request. Memory is taken for what has arrived, whatever the client announces.

use core::future::poll_fn;
use core::pin::Pin;
use core::task::{Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use hyper::body::{Body, Bytes, Incoming};
use tokio::time::sleep;

use super::body_budget::{BodyBudget, BodyShare, BudgetUsedUp};
use super::timeouts::{Activity, ClientWait};

/// Bounds on a body.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BodyLimits<'a> {
    /// The maximum size, in bytes.
    pub(crate) max: usize,
    /// The time until it is complete.
    pub(crate) timeout: Duration,
    /// The memory for all requests that are not complete. `None` for the few clients of the admin
    /// listener.
    pub(crate) budget: Option<&'a Arc<BodyBudget>>,
    /// The connection.
    pub(crate) activity: &'a Arc<Activity>,
}

/// The reason why a body was not read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyError {
    /// It has more than the maximum of bytes.
    TooLarge,
    /// There is no memory for incomplete requests.
    UsedUp(BudgetUsedUp),
    /// It was not complete in time.
    Slow,
    /// The connection broke, or the client gave up.
    Broken,
}

/// What an incomplete request takes besides its body and fields: the state of its stream and task.
const REQUEST: usize = 4 << 10;
/// What a header field takes, which may be one byte on the wire.
const FIELD: usize = 128;

/// Reads the body of a request with a number of header fields, to its end.
pub(crate) async fn read_body(
    body: &mut Incoming,
    fields: usize,
    limits: BodyLimits<'_>,
) -> Result<Bytes, BodyError> {
    if body.size_hint().lower() > limits.max as u64 {
        return Err(BodyError::TooLarge);
    }
    // Most bodies arrive in one piece with the head: that one is not copied, and nothing is counted.
    let mut read = Pieces::default();
    if let Poll::Ready(done) = poll_fn(|cx| Poll::Ready(read.poll(body, limits.max, cx))).await {
        return done.map(|()| read.into_bytes());
    }
    Box::pin(wait(body, read, fields, limits)).await
}

/// Waits for the rest of a body.
async fn wait(
    body: &mut Incoming,
    mut read: Pieces,
    fields: usize,
    limits: BodyLimits<'_>,
) -> Result<Bytes, BodyError> {
    let _waiting = ClientWait::begin(limits.activity);
    let mut share = limits.budget.map(|budget| BodyShare::new(budget, limits.activity));
    let head = REQUEST + FIELD * fields;
    let mut timer = Box::pin(sleep(limits.timeout));
    poll_fn(|cx| {
        if let Poll::Ready(done) = read.poll(body, limits.max, cx) {
            return Poll::Ready(done);
        }
        read.detach();
        if let Some(share) = &mut share {
            share.hold(head + read.all.len()).map_err(BodyError::UsedUp)?;
        }
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(BodyError::Slow))
    })
    .await?;
    Ok(read.into_bytes())
}

/// The bytes of a body so far.
#[derive(Debug, Default)]
struct Pieces {
    first: Bytes,
    /// All of them, if there are more.
    all: Vec<u8>,
}

impl Pieces {
    /// Adds what has arrived. Ready at the end of the body.
    fn poll(
        &mut self,
        body: &mut Incoming,
        max: usize,
        cx: &mut core::task::Context<'_>,
    ) -> Poll<Result<(), BodyError>> {
        loop {
            let Some(frame) = ready!(Pin::new(&mut *body).poll_frame(cx)) else {
                return Poll::Ready(Ok(()));
            };
            let Ok(data) = frame.map_err(|_| BodyError::Broken)?.into_data() else { continue };
            if self.first.len() + self.all.len() + data.len() > max {
                return Poll::Ready(Err(BodyError::TooLarge));
            }
            if self.first.is_empty() && self.all.is_empty() {
                self.first = data;
            } else {
                self.detach();
                self.all.extend_from_slice(&data);
            }
            if body.is_end_stream() {
                return Poll::Ready(Ok(()));
            }
        }
    }

    /// Copies the first piece: a few bytes would keep the whole buffer that they were read into.
    fn detach(&mut self) {
        if !self.first.is_empty() {
            self.all.extend_from_slice(&core::mem::take(&mut self.first));
        }
    }

    fn into_bytes(self) -> Bytes {
        if self.all.is_empty() { self.first } else { self.all.into() }
    }
}
