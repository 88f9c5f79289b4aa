//! A guard against more requests than can be served, in front of a handler.

use http::Request;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate_http::{Body, Problem};
use slidegate_tower::OverloadGuard;

use super::answer::traced;
use super::{Handle, Peer, Reply};
use crate::engine::Caller;
use crate::overload::admit;

/// A handler behind the overload guard of `slidegate-tower`.
#[derive(Debug)]
pub struct Guarded<H> {
    handler: H,
    guard: Option<OverloadGuard>,
}

impl<H> Guarded<H> {
    /// Behind a guard, if there is one.
    pub fn new(handler: H, guard: Option<OverloadGuard>) -> Self {
        Self { handler, guard }
    }
}

impl<H: Handle> Handle for Guarded<H> {
    async fn handle(&self, request: &mut Request<Incoming>, peer: &Peer) -> Reply {
        match &self.guard {
            None => self.handler.handle(request, peer).await,
            // In a box: whoever has no guard does not carry it.
            Some(guard) => Box::pin(self.behind(guard, request, peer)).await,
        }
    }
}

impl<H: Handle> Guarded<H> {
    async fn behind(
        &self,
        guard: &OverloadGuard,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> Reply {
        match admit(guard).await {
            Ok(pass) => {
                let reply = self.handler.handle(request, peer).await;
                drop(pass);
                reply
            }
            Err(after) => {
                let caller = Caller::http(request.headers());
                let problem = traced(Problem::overloaded().retry_after(after), caller);
                problem.response(Body::Problem).map(|text| Full::from(Bytes::from(text)))
            }
        }
    }
}
