//! The future of a response.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::sync::Arc;

use http::{Request, Response};
use pin_project_lite::pin_project;
use tower_service::Service;

use crate::answer::{Answer, respond};
use crate::count::Served;
use crate::rules::{KeptDecisions, LayerRules, Pending};

pin_project! {
    /// The future of a response of a [`RateLimit`](super::service::RateLimit) service.
    pub struct ResponseFuture<S, B, R, A>
    where
        S: Service<Request<B>>,
    {
        #[pin]
        state: State<S, S::Future, B, R, S::Error, A>,
    }
}

pin_project! {
    #[project = StateProj]
    #[project_replace = StateOwned]
    enum State<S, F, B, R, E, A> {
        /// The service runs, and nothing has to be done afterwards.
        Passing {
            #[pin]
            future: F,
        },
        /// The service runs.
        Serving {
            #[pin]
            future: F,
            rules: Arc<LayerRules>,
            passed: KeptDecisions,
        },
        /// The stores decide, or the request waits for units.
        Deciding {
            pending: Pending,
            service: S,
            request: Request<B>,
            rules: Arc<LayerRules>,
            answer: A,
        },
        /// Units that do not count are refunded.
        Refunding {
            refund: Pin<Box<dyn Future<Output = KeptDecisions> + Send>>,
            result: Result<Response<R>, E>,
            rules: Arc<LayerRules>,
        },
        /// The response is ready.
        Answered { result: Result<Response<R>, E> },
        /// The response was returned.
        Done,
    }
}

impl<S, B, R, A> ResponseFuture<S, B, R, A>
where
    S: Service<Request<B>, Response = Response<R>>,
{
    #[inline]
    pub(super) fn passing(future: S::Future) -> Self {
        Self { state: State::Passing { future } }
    }

    #[inline]
    pub(super) fn serving(
        future: S::Future,
        rules: Arc<LayerRules>,
        passed: KeptDecisions,
    ) -> Self {
        Self { state: State::Serving { future, rules, passed } }
    }

    pub(super) fn answered(response: Response<R>) -> Self {
        Self { state: State::Answered { result: Ok(response) } }
    }

    pub(super) fn deciding(
        pending: Pending,
        service: S,
        request: Request<B>,
        rules: Arc<LayerRules>,
        answer: A,
    ) -> Self {
        Self { state: State::Deciding { pending, service, request, rules, answer } }
    }
}

impl<S, B, R, A> Future for ResponseFuture<S, B, R, A>
where
    S: Service<Request<B>, Response = Response<R>>,
    A: Answer<R>,
{
    type Output = Result<Response<R>, S::Error>;

    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.project().state;
        // The common state first, because matching six states takes longer.
        if let StateProj::Passing { future } = state.as_mut().project() {
            return future.poll(cx);
        }
        loop {
            match state.as_mut().project() {
                StateProj::Passing { future } => return future.poll(cx),
                StateProj::Serving { future, rules, passed } => {
                    let mut result = ready!(future.poll(cx));
                    let Some(counts) = passed.uncounted(rules, &served(&result)) else {
                        if let Ok(response) = &mut result {
                            rules.write(passed, response);
                        }
                        return Poll::Ready(result);
                    };
                    let passed = core::mem::replace(passed, KeptDecisions::Nothing);
                    let rules = Arc::clone(rules);
                    let owned = Arc::clone(&rules);
                    let refund = Box::pin(async move { passed.uncount(&owned, &counts).await });
                    state.set(State::Refunding { refund, result, rules });
                }
                StateProj::Deciding { pending, .. } => {
                    let decided = ready!(pending.as_mut().poll(cx));
                    let StateOwned::Deciding { mut service, mut request, rules, answer, .. } =
                        state.as_mut().project_replace(State::Done)
                    else {
                        return Poll::Pending;
                    };
                    state.set(match decided {
                        Ok(passed) => {
                            passed.share(&rules, request.extensions_mut());
                            State::Serving { future: service.call(request), rules, passed }
                        }
                        Err(denial) => State::Answered { result: Ok(respond(&answer, &denial)) },
                    });
                }
                StateProj::Refunding { refund, .. } => {
                    let passed = ready!(refund.as_mut().poll(cx));
                    let StateOwned::Refunding { mut result, rules, .. } =
                        state.as_mut().project_replace(State::Done)
                    else {
                        return Poll::Pending;
                    };
                    if let Ok(response) = &mut result {
                        rules.write(&passed, response);
                    }
                    return Poll::Ready(result);
                }
                StateProj::Answered { .. } => {
                    let StateOwned::Answered { result } =
                        state.as_mut().project_replace(State::Done)
                    else {
                        return Poll::Pending;
                    };
                    return Poll::Ready(result);
                }
                // Polled after completion, which a caller must not do.
                StateProj::Done => return Poll::Pending,
            }
        }
    }
}

fn served<R, E>(result: &Result<Response<R>, E>) -> Served<'_> {
    let response = result.as_ref().ok();
    Served { response: response.map(|response| (response.status(), response.headers())) }
}

impl<S, B, R, A> fmt::Debug for ResponseFuture<S, B, R, A>
where
    S: Service<Request<B>>,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ResponseFuture(..)")
    }
}
