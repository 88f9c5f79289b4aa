//! A service behind gates.

use core::fmt;
use core::mem;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use tower_service::Service;

use super::future::ResponseFuture;
use crate::answer::Answer;
use crate::head::Head;
use crate::judge::{Judge, Next, Passed};
use crate::key::with_peer;

/// A service behind gates: made by [`RateLimitLayer`](crate::RateLimitLayer).
#[derive(Clone)]
pub struct RateLimit<S, A> {
    inner: S,
    judge: Arc<Judge>,
    answer: A,
}

impl<S, A> RateLimit<S, A> {
    pub(super) fn new(inner: S, judge: Arc<Judge>, answer: A) -> Self {
        Self { inner, judge, answer }
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
    fn call(&mut self, request: Request<B>) -> Self::Future {
        if let Some((limiter, peer)) = self.judge.plain_peer(&Head::of(&request)) {
            let decision = with_peer(peer, |key| limiter.check(key));
            // One that is denied takes the longer way, which asks anew: nothing was taken.
            if decision.is_allowed() {
                // Before the call, so that the future is made where it stays.
                if self.judge.fields.is_none() {
                    return ResponseFuture::passing(self.inner.call(request));
                }
                let passed = Passed::one(&decision, None).unwrap_or(Passed::Nothing);
                let future = self.inner.call(request);
                return ResponseFuture::serving(future, Arc::clone(&self.judge), passed);
            }
        }
        self.judge_and_call(request)
    }
}

impl<S, A> RateLimit<S, A> {
    /// The longer way, apart so that the short one stays small.
    #[inline(never)]
    fn judge_and_call<B, R>(&mut self, request: Request<B>) -> ResponseFuture<S, B, R, A>
    where
        S: Service<Request<B>, Response = Response<R>> + Clone,
        A: Answer<R> + Clone,
    {
        match self.judge.judge(&Head::of(&request)) {
            Next::Pass(passed) if passed.is_done(&self.judge) => {
                ResponseFuture::passing(self.inner.call(request))
            }
            Next::Pass(passed) => {
                let judge = Arc::clone(&self.judge);
                ResponseFuture::serving(self.inner.call(request), judge, passed)
            }
            Next::Deny(denial) => ResponseFuture::answered(self.answer.answer(&denial)),
            Next::Later(pending) => {
                // The one that was made ready is used; its clone has to be made ready anew.
                let clone = self.inner.clone();
                let ready = mem::replace(&mut self.inner, clone);
                let (judge, answer) = (Arc::clone(&self.judge), self.answer.clone());
                ResponseFuture::deciding(pending, ready, request, judge, answer)
            }
        }
    }
}

impl<S: fmt::Debug, A> fmt::Debug for RateLimit<S, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("inner", &self.inner).finish_non_exhaustive()
    }
}
