//! The HTTP listener: the API under `/v1`, forward auth, and the `OpenAPI` document.
//!
//! It uses hyper directly. A check takes the shortest path; the futures of all other operations are
//! boxed, so that a check's future stays small.

mod advertised;
mod api;
pub(crate) mod auth;
mod body;
mod envoy;
pub(crate) mod error;
mod openapi;
pub(crate) mod reply;
mod request;
mod route;
mod serve;

use core::time::Duration;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate_gate::{ASKS_MAX, Caller, WaitOptions};
use slidegate_http::{Body, ClientAddress, Problem};
use slidegate_tower::OverloadGuard;

pub(crate) use self::body::read_json;
use self::error::{ApiError, ApiErrorKind};
use self::reply::traced;
pub(crate) use self::request::parse;
use self::route::{Operation, RouteMatch};
pub use self::serve::{ConnectionSlot, Connections, Handle, Peer, ServeLimits, Server, TlsConfig};
use crate::access::{Access, HostNames, Scope};
use crate::config::HeaderSettings;
use crate::domain::Options;
use crate::engine::Engine;
use crate::net::{BODIES_MAX, BodyBudget, BodyLimits};
use crate::overload::{Place, admit};

/// The reply to a request.
pub type Reply = Response<Full<Bytes>>;

/// The handler of the HTTP listener.
#[derive(Debug)]
pub struct HttpState {
    engine: Arc<Engine>,
    settings: HttpSettings,
}

/// Bounds on requests, and how they are read.
#[derive(Debug, Clone)]
pub struct HttpSettings {
    /// The maximum size of a body of the API, in bytes.
    pub body_max: usize,
    /// The maximum size of a body of Envoy's `/json`, in bytes.
    pub message_max: usize,
    /// The time for an HTTP/2 body. In HTTP/1, [`ServeLimits::request_timeout`] bounds the whole
    /// request instead.
    pub body_timeout: Duration,
    /// The memory for bodies that are not complete, which other listeners may share.
    pub bodies: Arc<BodyBudget>,
    /// The maximum length of a key, in bytes. Forward auth counts longer values by their digest.
    pub key_max: usize,
    /// The maximum number of checks in a batch.
    pub batch_max: usize,
    /// The maximum number of checks in an all-or-nothing request, at most [`ASKS_MAX`].
    pub all_or_nothing_max: usize,
    /// The longest time that a check may wait for units.
    pub wait_max: Duration,
    /// How forward auth finds the client's address. If any proxy is trusted, only trusted proxies
    /// may use it.
    pub client: ClientAddress,
    /// What clients may do.
    pub access: Access,
    /// The names by which clients call the listener.
    pub names: HostNames,
    /// The rate limit fields of replies.
    pub headers: HeaderSettings,
    /// Options of Envoy's `/json`.
    pub envoy: Arc<Options>,
    /// Set before the process exits, so that `/healthcheck` fails.
    pub is_ending: Arc<AtomicBool>,
}

impl HttpState {
    /// Creates a handler for an engine.
    pub fn new(engine: Arc<Engine>, settings: HttpSettings) -> Self {
        let all_or_nothing_max = settings.all_or_nothing_max.min(ASKS_MAX);
        Self { engine, settings: HttpSettings { all_or_nothing_max, ..settings } }
    }

    /// Returns the engine.
    pub fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    /// Returns the settings.
    pub fn settings(&self) -> &HttpSettings {
        &self.settings
    }

    /// Returns the bounds on a body of the API.
    fn body_limits<'a>(&'a self, peer: &'a Peer) -> BodyLimits<'a> {
        let HttpSettings { body_max, body_timeout, bodies, .. } = &self.settings;
        let (budget, activity) = (Some(bodies), &peer.activity);
        BodyLimits { max: *body_max, timeout: *body_timeout, budget, activity }
    }
}

impl HttpState {
    /// Returns an error if the request may not run the operation.
    fn permit(&self, operation: Operation, request: &Request<Incoming>) -> Result<(), ApiError> {
        let HttpSettings { access, names, .. } = &self.settings;
        // The proxy forwards `Host`, `Origin` and `Authorization` of the original request, so they are
        // not checked. A page of another site cannot set the fields that describe an original request.
        if operation == Operation::Auth {
            return Ok(access.check_own_header(Scope::Check, request.headers())?);
        }
        names.check(request.uri(), request.headers())?;
        match operation.scope() {
            Some(scope) => Ok(access.check_headers(scope, request.headers())?),
            None => Ok(()),
        }
    }
}

/// Returns how a request waits for units for at most `time`, or `None` if it does not.
fn waiting(state: &HttpState, time: Duration, place: Option<&Place>) -> Option<WaitOptions> {
    if time.is_zero() {
        return None;
    }
    let waiting = state.engine.waiting(time);
    Some(match place {
        Some(place) => place.free_on_wait(waiting),
        None => waiting,
    })
}

impl Default for HttpSettings {
    fn default() -> Self {
        Self {
            body_max: 64 << 10,
            message_max: crate::grpc::MESSAGE_MAX,
            body_timeout: Duration::from_secs(10),
            bodies: BodyBudget::new(BODIES_MAX),
            key_max: 1024,
            batch_max: 1000,
            all_or_nothing_max: ASKS_MAX,
            wait_max: Duration::from_secs(30),
            client: ClientAddress::peer(),
            access: Access::open(),
            names: HostNames::default(),
            headers: HeaderSettings::default(),
            envoy: Arc::default(),
            is_ending: Arc::default(),
        }
    }
}

impl Handle for HttpState {
    type Body = Full<Bytes>;

    async fn handle(&self, request: &mut Request<Incoming>, peer: &Peer) -> Reply {
        let replied = match route::find(request.method(), request.uri().path()) {
            RouteMatch::Found(Operation::Check, _) => {
                match self.permit(Operation::Check, request) {
                    Ok(()) => api::check(self, request, peer).await,
                    Err(error) => Err(error),
                }
            }
            _ => Box::pin(handle_any(self, request, peer)).await,
        };
        replied.unwrap_or_else(|error| error.reply(Caller::http(request.headers())))
    }
}

async fn handle_any(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, ApiError> {
    if let Some(reply) = envoy::handle(state, request, peer).await? {
        return Ok(reply);
    }
    let (method, path) = (request.method(), request.uri().path());
    let (operation, rest) = match route::find(method, path) {
        RouteMatch::Found(operation, rest) => (operation, rest),
        RouteMatch::WrongMethod(allow) => {
            return Err(ApiError::wrong_method(method.as_str(), path, &allow));
        }
        RouteMatch::UnknownPath => {
            let paths = route::ROUTES.iter().map(|route| route.path);
            return Err(ApiError::unknown(ApiErrorKind::UnknownPath, &"path", path, paths));
        }
    };
    state.permit(operation, request)?;
    match operation {
        Operation::Check => api::check(state, request, peer).await,
        Operation::CheckQuery => api::check_query(state, request).await,
        Operation::CheckAll => api::check_all(state, request, peer).await,
        Operation::Batch => api::batch(state, request, peer).await,
        Operation::Peek => api::peek(state, request, peer).await,
        Operation::Reserve => api::reserve(state, request, peer).await,
        Operation::Settle => api::settle(state, request, peer).await,
        Operation::Refund => api::refund(state, request, peer).await,
        Operation::Usage => api::usage(state, request, peer).await,
        Operation::History => api::history(state, request, peer).await,
        Operation::Reset => api::reset(state, request, peer).await,
        Operation::Policies => api::policies(state, request),
        Operation::Policy => api::policy(state, request, rest),
        Operation::Auth => auth::authorize(state, request, peer).await,
        Operation::Document => openapi::document(state, request),
    }
}

/// A handler with the overload guard of `slidegate-tower`, if there is one. `/healthcheck` is not
/// guarded.
#[derive(Debug)]
pub struct ShedLoad<H> {
    handler: H,
    guard: Option<OverloadGuard>,
}

impl<H> ShedLoad<H> {
    /// Applies `guard` to `handler`.
    pub fn new(handler: H, guard: Option<OverloadGuard>) -> Self {
        Self { handler, guard }
    }
}

impl<H: Handle> Handle for ShedLoad<H> {
    type Body = H::Body;

    async fn handle(&self, request: &mut Request<Incoming>, peer: &Peer) -> Response<H::Body> {
        // A busy server is not dead, so the health check is not guarded.
        let guard = self.guard.as_ref().filter(|_| request.uri().path() != envoy::HEALTHCHECK);
        let Some(guard) = guard else { return self.handler.handle(request, peer).await };
        // Boxed, so that requests without a guard do not carry it.
        let guarded = async {
            match admit(guard).await {
                Ok(admission) => {
                    // It holds the place for as long as the request exists.
                    request.extensions_mut().insert(Place::new(admission));
                    self.handler.handle(request, peer).await
                }
                Err(after) => {
                    let problem = Problem::overloaded().retry_after(after);
                    let problem = traced(problem, Caller::http(request.headers()));
                    problem.response(Body::Problem).map(|body| Full::from(body).into())
                }
            }
        };
        Box::pin(guarded).await
    }
}
