//! The body of a call: its message must arrive in time and fit into the memory for incomplete bodies.
//!
//! A connection on which other calls end is not idle, so the timeouts of the connection do not apply to
//! one message that never ends.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::error::Error;
use std::sync::Arc;

use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use tokio::time::{Sleep, sleep};
use tonic::Status;

use crate::net::{BodyBudget, BodyShare};

/// The time for a message, from the start of its call.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

/// A body with these bounds.
pub(super) struct CallBody {
    body: Incoming,
    share: BodyShare<Arc<BodyBudget>>,
    /// Set when the message is not there at once.
    timeout: Option<Pin<Box<Sleep>>>,
}

impl CallBody {
    pub(super) fn new(body: Incoming, budget: Arc<BodyBudget>) -> Self {
        Self { body, share: BodyShare::new(budget), timeout: None }
    }
}

impl Body for CallBody {
    type Data = Bytes;
    type Error = Box<dyn Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let timeout = self.timeout.get_or_insert_with(|| Box::pin(sleep(MESSAGE_TIMEOUT)));
            ready!(timeout.as_mut().poll(cx));
            let message = format!("the message was not complete after {MESSAGE_TIMEOUT:?}");
            return Poll::Ready(Some(Err(Status::deadline_exceeded(message).into())));
        };
        let Some(Ok(frame)) = frame else { return Poll::Ready(frame.map(|frame| Ok(frame?))) };
        let length = frame.data_ref().map_or(0, Bytes::len);
        let added = self.share.add(length).map_err(|full| Status::unavailable(full.to_string()));
        Poll::Ready(Some(added.map(|()| frame).map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
