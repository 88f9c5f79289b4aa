//! A service with an overload guard.

use core::fmt;
use core::future::Future;
use core::mem;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use core::time::Duration;
use std::sync::Arc;

use http::{Request, Response};
use pin_project_lite::pin_project;
use slidegate_http::{Problem, TraceParent};
use tower_service::Service;

use super::guard::{Admission, Arrival, Queued};
use super::layer::Shared;
use crate::answer::{Answer, Denial, respond};

/// A service with an overload guard, created by [`OverloadLayer`](crate::OverloadLayer).
#[derive(Clone)]
pub struct Overload<S, A> {
    inner: S,
    shared: Arc<Shared>,
    answer: A,
}

impl<S, A> Overload<S, A> {
    pub(super) fn new(inner: S, shared: Arc<Shared>, answer: A) -> Self {
        Self { inner, shared, answer }
    }
}

impl<S, A, B, R> Service<Request<B>> for Overload<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    A: Answer<R> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = OverloadFuture<S, B, R, A>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let state = match (self.shared.guard.arrive(), &self.shared.sleep) {
            (Arrival::Admitted(admission), _) => {
                self.shared.report(false, Duration::ZERO);
                State::Serving { future: self.inner.call(request), admission }
            }
            (Arrival::Queued(place), Some(sleep)) => {
                // The service that is ready is used, and its clone becomes ready later.
                let clone = self.inner.clone();
                State::Queued {
                    sleeping: sleep.sleep(place.delay()),
                    place: Some(place),
                    service: mem::replace(&mut self.inner, clone),
                    request,
                    shared: Arc::clone(&self.shared),
                    answer: self.answer.clone(),
                }
            }
            (Arrival::Queued(place), None) => {
                shed(&self.shared, &request, place.delay(), Duration::ZERO, &self.answer)
            }
            (Arrival::Shed(after), _) => {
                shed(&self.shared, &request, after, Duration::ZERO, &self.answer)
            }
        };
        OverloadFuture { state }
    }
}

pin_project! {
    /// The future of a response of an [`Overload`] service.
    pub struct OverloadFuture<S, B, R, A>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B, R, A>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, F, B, R, A> {
        /// The service runs.
        Serving {
            #[pin]
            future: F,
            admission: Admission,
        },
        /// The request is queued.
        Queued {
            sleeping: Pin<Box<dyn Future<Output = ()> + Send>>,
            place: Option<Queued>,
            service: S,
            request: Request<B>,
            shared: Arc<Shared>,
            answer: A,
        },
        /// The request was rejected.
        Answered { response: Response<R> },
        /// The response was returned.
        Done,
    }
}

impl<S, B, R, A> Future for OverloadFuture<S, B, R, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Answer<R>,
{
    type Output = Result<Response<R>, S::Error>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        loop {
            match state.as_mut().project() {
                StateProj::Serving { future, .. } => {
                    let result = ready!(future.poll(cx));
                    // Drops the admission now, not when the caller drops this future.
                    state.set(State::Done);
                    return Poll::Ready(result);
                }
                StateProj::Queued { sleeping, place, shared, .. } => {
                    ready!(sleeping.as_mut().poll(cx));
                    let Some(waited) = place.take() else { return Poll::Pending };
                    let total = waited.total();
                    match (waited.again(), &shared.sleep) {
                        (Arrival::Queued(next), Some(sleep)) => {
                            *sleeping = sleep.sleep(next.delay());
                            *place = Some(next);
                        }
                        (arrival, _) => state.as_mut().leave_queue(arrival, total),
                    }
                }
                StateProj::Answered { .. } => {
                    let StateOwned::Answered { response } =
                        state.as_mut().project_replace(State::Done)
                    else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(Ok(response));
                }
                // Polled after completion, which a caller must not do.
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

impl<S, B, R, A> State<S, S::Future, B, R, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Answer<R>,
{
    /// Serves or rejects a request that was in the queue for `queued`.
    fn leave_queue(mut self: Pin<&mut Self>, arrival: Arrival, queued: Duration) {
        let StateOwned::Queued { mut service, request, shared, answer, .. } =
            self.as_mut().project_replace(Self::Done)
        else {
            return;
        };
        let next = match arrival {
            Arrival::Admitted(admission) => {
                shared.report(false, queued);
                Self::Serving { future: service.call(request), admission }
            }
            Arrival::Queued(place) => shed(&shared, &request, place.delay(), queued, &answer),
            Arrival::Shed(after) => shed(&shared, &request, after, queued, &answer),
        };
        self.set(next);
    }
}

fn shed<S, F, B, R, A: Answer<R>>(
    shared: &Shared,
    request: &Request<B>,
    after: Duration,
    queued: Duration,
    answer: &A,
) -> State<S, F, B, R, A> {
    shared.report(true, queued);
    let mut problem = Problem::overloaded().retry_after(after);
    if let Some(parent) = TraceParent::of(request.headers()) {
        problem = problem.trace_id(parent.trace_id());
    }
    State::Answered { response: respond(answer, &Denial::of(problem, Some(after))) }
}

impl<S: fmt::Debug, A> fmt::Debug for Overload<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Overload").field("inner", &self.inner).finish_non_exhaustive()
    }
}

impl<S, B, R, A> fmt::Debug for OverloadFuture<S, B, R, A>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OverloadFuture(..)")
    }
}
