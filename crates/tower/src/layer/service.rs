//! A service behind gates.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::future::ResponseFuture;
use crate::answer::{Answer, Denial, respond};
use crate::head::Head;
use crate::rules::{LayerRules, Next, Pending};

/// A service with rate limits, created by [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S, A> {
    inner: S,
    rules: Arc<LayerRules>,
    answer: A,
}

impl<S, A> RateLimit<S, A> {
    pub(super) fn new(inner: S, rules: Arc<LayerRules>, answer: A) -> Self {
        Self { inner, rules, answer }
    }
}

impl<S, A, B, R> Service<Request<B>> for RateLimit<S, A>
where
    S: Service<Request<B>, Response = Response<R>> + Clone,
    A: Answer<R> + Clone,
{
    type Response = Response<R>;
    type Error = S::Error;
    type Future = ResponseFuture<S, B, R, A>;

    #[inline]
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    #[inline]
    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        match self.rules.decide(&Head::of(&request)) {
            Next::Serve(passed) if passed.is_done(&self.rules) => {
                ResponseFuture::passing(self.inner.call(request))
            }
            Next::Serve(passed) => {
                let rules = Arc::clone(&self.rules);
                passed.share(&rules, request.extensions_mut());
                ResponseFuture::serving(self.inner.call(request), rules, passed)
            }
            Next::Reject(denial) => self.reject(&denial),
            Next::Wait(pending) => self.wait(pending, request),
        }
    }
}

// Separate functions keep the path of an allowed request small.
impl<S, A> RateLimit<S, A> {
    #[cold]
    fn reject<B, R>(&self, denial: &Denial) -> ResponseFuture<S, B, R, A>
    where
        S: Service<Request<B>, Response = Response<R>>,
        A: Answer<R>,
    {
        ResponseFuture::answered(respond(&self.answer, denial))
    }

    #[cold]
    fn wait<B, R>(&mut self, pending: Pending, request: Request<B>) -> ResponseFuture<S, B, R, A>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        A: Answer<R> + Clone,
    {
        // The service that is ready is used, and its clone becomes ready later.
        let clone = self.inner.clone();
        let ready = mem::replace(&mut self.inner, clone);
        let (rules, answer) = (Arc::clone(&self.rules), self.answer.clone());
        ResponseFuture::deciding(pending, ready, request, rules, answer)
    }
}

impl<S: fmt::Debug, A> fmt::Debug for RateLimit<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
