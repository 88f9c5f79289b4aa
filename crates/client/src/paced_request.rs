//! A request that waits until it may be sent, independent of a runtime.

use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::Poll;
use core::time::Duration;
use std::sync::Arc;

use http::{HeaderMap, StatusCode};

use crate::answer::Answer;
use crate::error::Error;
use crate::pacer::{Shared, State};
use crate::pacing::{Next, Step};
use crate::repeat::Repeat;
use crate::scope::Scope;
use crate::ticket::Ticket;

/// A request that waits until it may be sent.
///
/// Dropping it frees its position in the queue. Use it with clients that the middleware of this
/// crate does not support:
///
/// ```
/// use http::{HeaderMap, StatusCode};
/// use slidegate_client::{Next, Pacer, Repeat, Scope};
///
/// # async fn send() -> (StatusCode, HeaderMap) { (StatusCode::OK, HeaderMap::new()) }
/// # async fn call(pacer: &Pacer) -> Result<StatusCode, slidegate_client::Error> {
/// let mut request = pacer.request(Scope::new("api.example.com"));
/// loop {
///     request.ready(tokio::time::sleep).await?;
///     let (status, headers) = send().await;
///     if request.answered(status, &headers, Repeat::Always) == Next::Done {
///         return Ok(status);
///     }
/// }
/// # }
/// # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
/// # assert_eq!(runtime.block_on(call(&Pacer::new())).unwrap(), StatusCode::OK);
/// ```
#[derive(Debug)]
pub struct PacedRequest {
    shared: Arc<Shared>,
    ticket: Ticket,
    waited: Duration,
}

/// How long a request waited and how often it was sent. It is in the extensions of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PacingReport {
    /// The number of attempts.
    pub attempts: u32,
    /// The time that the request waited before it was sent, all attempts together.
    pub waited: Duration,
}

impl PacedRequest {
    pub(crate) fn new(shared: Arc<Shared>, scope: Scope) -> Self {
        let now = shared.now();
        let ticket = shared.with(|state| state.pacing.begin(scope, now));
        Self { shared, ticket, waited: Duration::ZERO }
    }

    /// Waits until the request may be sent.
    ///
    /// `sleep` is called with a time, and its future is awaited, so any runtime can be used.
    ///
    /// # Errors
    ///
    /// Returns an error if the request must not be sent: it would wait past its deadline, too many
    /// requests wait already, or the scope is stopped.
    pub async fn ready<S, F>(&mut self, mut sleep: S) -> Result<(), Error>
    where
        S: FnMut(Duration) -> F,
        F: Future<Output = ()>,
    {
        let asked = self.shared.now();
        loop {
            let shared = Arc::clone(&self.shared);
            let mut news = pin!(shared.news.notified());
            // Enabled before the call, so that a notification in between is not missed.
            news.as_mut().enable();
            let (now, ticket) = (shared.now(), &mut self.ticket);
            match shared.with(|State { pacing, random }| pacing.ask(ticket, now, random)) {
                Step::Go => break,
                Step::Refuse(error) => return Err(error),
                Step::Wait(wait) => either(news, sleep(wait)).await,
            }
        }
        self.waited = self.waited.saturating_add(self.shared.now().saturating_sub(asked));
        Ok(())
    }

    /// Learns from the response. Returns whether to return it, or to drop it and send the request
    /// again.
    pub fn answered(&mut self, status: StatusCode, headers: &HeaderMap, repeat: Repeat) -> Next {
        let now = self.shared.now();
        let answer = Answer::read(status, headers, now);
        let ticket = &mut self.ticket;
        self.shared
            .with(|State { pacing, random }| pacing.answer(ticket, &answer, repeat, now, random))
    }

    /// Returns the report so far.
    pub fn report(&self) -> PacingReport {
        PacingReport { attempts: self.ticket.attempts(), waited: self.waited }
    }
}

impl Drop for PacedRequest {
    fn drop(&mut self) {
        let ticket = &mut self.ticket;
        self.shared.with(|state| state.pacing.end(ticket));
    }
}

/// Returns when the first of the two futures is ready.
async fn either(one: impl Future<Output = ()>, other: impl Future<Output = ()>) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    poll_fn(|context| {
        if one.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        other.as_mut().poll(context)
    })
    .await;
}
