//! The HTTP endpoints of Envoy's reference service: `/json` and `/healthcheck`.

use core::sync::atomic::Ordering;

use http::header::HeaderName;
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};

use slidegate_gate::Caller;

use super::body;
use super::error::ApiError;
use super::{HttpState, Peer, Reply};
use crate::access::Scope;
use crate::domain;
use crate::net::BodyLimits;

/// The path of the health check.
pub(super) const HEALTHCHECK: &str = "/healthcheck";

/// Replies if the path is one of these.
pub(super) async fn handle(
    state: &HttpState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Result<Option<Reply>, ApiError> {
    let settings = state.settings();
    let (allowed, allow): (&[Method], _) = match request.uri().path() {
        "/json" => (&[Method::POST], "POST"),
        HEALTHCHECK => (&[Method::GET, Method::HEAD], "GET, HEAD"),
        _ => return Ok(None),
    };
    if !allowed.contains(request.method()) {
        let (method, path) = (request.method().as_str(), request.uri().path());
        return Err(ApiError::wrong_method(method, path, allow));
    }
    if request.method() != Method::POST {
        let is_healthy = !settings.is_ending.load(Ordering::Relaxed)
            && state.engine().plan().is_healthy(&settings.envoy.envoy);
        return Ok(Some(reply(domain::healthcheck(is_healthy))));
    }
    settings.names.check(request.uri(), request.headers())?;
    settings.access.check_headers(Scope::Check, request.headers())?;
    let may_give_back = settings.access.check_headers(Scope::Change, request.headers());
    let limits = BodyLimits { max: settings.message_max, ..state.body_limits(peer) };
    let body = body::read_any(request, limits).await?;
    let caller = Caller::http(request.headers());
    Ok(Some(reply(
        domain::json(
            state.engine().plan().domains(),
            &settings.envoy,
            &body,
            caller,
            may_give_back,
        )
        .await,
    )))
}

fn reply(answer: domain::JsonReply) -> Reply {
    let mut reply = Response::new(Full::from(Bytes::from(answer.body)));
    *reply.status_mut() = StatusCode::from_u16(answer.status).unwrap_or_default();
    for (name, value) in answer.headers {
        let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
        reply.headers_mut().insert(name, value);
    }
    reply
}
