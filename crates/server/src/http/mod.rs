//! The HTTP listener: the API under `/v1`, forward auth, and the document that describes them.
//!
//! On hyper alone. The way of a check is short: one comparison a route, the body in one piece, the
//! answer written once; everything else goes by a box, so that checks do not carry its weight.

pub(crate) mod answer;
mod api;
mod ask;
mod auth;
mod body;
mod envoy;
mod guarded;
pub(crate) mod json;
mod openapi;
pub(crate) mod problem;
pub(crate) mod query;
mod quick;
mod route;
mod serve;
mod state;

use core::future::Future;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};

#[cfg(test)]
pub(crate) use self::auth::counted_by;
pub use self::guarded::Guarded;
use self::problem::{Refusal, RefusalKind};
use self::route::{Found, Operation};
pub use self::serve::{Connections, Entry, Handle, Peer, ServeLimits, Server, Tls};
pub use self::state::{HttpSettings, HttpState};
use crate::engine::Caller;

/// What a request is answered with.
pub type Reply = Response<Full<Bytes>>;

/// Answers one request. Whatever is wrong with it is an answer too.
pub async fn handle(state: &HttpState, request: &mut Request<Incoming>, peer: &Peer) -> Reply {
    let answered = match route::find(request.method(), request.uri().path()) {
        Found::Route(Operation::Check, _) => api::check(state, request).await,
        Found::Route(Operation::CheckQuery, _) => api::check_query(state, request).await,
        _ => Box::pin(other(state, request, peer)).await,
    };
    match answered {
        Ok(reply) => reply,
        Err(refusal) => refusal.reply(Caller::http(request.headers())),
    }
}

impl Handle for HttpState {
    fn handle(
        &self,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Reply> + Send {
        handle(self, request, peer)
    }
}

async fn other(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    if let Some(reply) = envoy::answer(state, request).await? {
        return Ok(reply);
    }
    let (method, path) = (request.method(), request.uri().path());
    let (operation, rest) = match route::find(method, path) {
        Found::Route(operation, rest) => (operation, rest),
        Found::WrongMethod(allow) => {
            return Err(Refusal::wrong_method(method.as_str(), path, &allow));
        }
        Found::Nothing => {
            let paths = route::ROUTES.iter().map(|route| route.path);
            return Err(Refusal::unknown(RefusalKind::UnknownPath, &"path", path, paths));
        }
    };
    match operation {
        Operation::Check => api::check(state, request).await,
        Operation::CheckQuery => api::check_query(state, request).await,
        Operation::Auth => auth::judge(state, request, peer).await,
        Operation::Policies => api::policies(state, request),
        Operation::Policy => api::policy(state, request, rest),
        Operation::Document => openapi::reply(state, request),
        operation => api::with_body(state, operation, request).await,
    }
}
