//! The paths of the dashboard.

use core::time::Duration;
use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use slidegate_plot::STYLE;

use super::Dashboard;
use super::document::View;
use super::events::{DashboardBody, EventStream};
use super::key::{self, KeyName};
use crate::http::error::{ApiError, ApiErrorKind};
use crate::http::{Connections, Peer, parse, read_json, reply};
use crate::net::BodyLimits;

const PAGE: &str = include_str!("page.html");
const CSS: &str = include_str!("page.css");
const JS: &str = concat!(include_str!("elements.js"), "\n", include_str!("page.js"));

/// The page loads nothing from elsewhere, and runs no script but its own.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
    img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The maximum size of a body, in bytes.
const BODY_MAX: usize = 16 << 10;
/// The time for an HTTP/2 body.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

type Reply = Response<DashboardBody>;

/// Returns whether a path may be read without the token: the page itself, which contains no data. A
/// browser cannot send the token before the page has asked for it.
pub(crate) fn is_public(path: &str) -> bool {
    matches!(
        path,
        "/" | "/dashboard" | "/dashboard/" | "/dashboard/page.css" | "/dashboard/page.js"
    )
}

/// Replies to a request for a path of the dashboard; `None` for any other path. The caller has checked
/// the token, unless the path is public.
pub(crate) async fn handle(
    dashboard: &Arc<Dashboard>,
    listeners: &[Arc<Connections>],
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Option<Result<Reply, ApiError>> {
    let path = request.uri().path();
    let reply = match path {
        "/" | "/dashboard/" => read_only(request).map(|()| redirect()),
        "/dashboard" => read_only(request).map(|()| asset("text/html; charset=utf-8", PAGE.into())),
        "/dashboard/page.css" => read_only(request)
            .map(|()| asset("text/css; charset=utf-8", [STYLE, CSS].concat().into())),
        "/dashboard/page.js" => {
            read_only(request).map(|()| asset("text/javascript; charset=utf-8", JS.into()))
        }
        "/dashboard/state" => match read_only(request) {
            Ok(()) => state(dashboard, listeners, View::parse(request.uri().query())).await,
            Err(error) => Err(error),
        },
        "/dashboard/events" => read_only(request).and_then(|()| {
            let view = View::parse(request.uri().query());
            events(dashboard, listeners, view)
        }),
        "/dashboard/key" | "/dashboard/reset" => {
            let is_reset = path == "/dashboard/reset";
            Box::pin(key_operation(dashboard, request, peer, is_reset)).await
        }
        _ => return None,
    };
    Some(reply)
}

async fn state(
    dashboard: &Arc<Dashboard>,
    listeners: &[Arc<Connections>],
    view: View,
) -> Result<Reply, ApiError> {
    dashboard.look();
    let written = Arc::clone(dashboard).document(listeners.to_vec(), view).await;
    let failed = || ApiError::new(ApiErrorKind::Failed, "writing the state panicked");
    let document = written.ok_or_else(failed)?;
    Ok(reply::with_body(document.json.into(), true).map(DashboardBody::from))
}

async fn key_operation(
    dashboard: &Dashboard,
    request: &mut Request<Incoming>,
    peer: &Peer,
    is_reset: bool,
) -> Result<Reply, ApiError> {
    if request.method() != Method::POST {
        let path = request.uri().path();
        return Err(ApiError::wrong_method(request.method().as_str(), path, "POST"));
    }
    let activity = &peer.activity;
    let limits = BodyLimits { max: BODY_MAX, timeout: BODY_TIMEOUT, budget: None, activity };
    let body = read_json(request, limits).await?;
    let name: KeyName<'_> = parse(&body)?;
    let done = if is_reset {
        key::reset(dashboard, &name).await
    } else {
        key::show(dashboard, &name).await
    };
    done.map(|body| reply::plain(&body).map(DashboardBody::from))
}

fn events(
    dashboard: &Arc<Dashboard>,
    listeners: &[Arc<Connections>],
    view: View,
) -> Result<Reply, ApiError> {
    let Some(events) = EventStream::start(dashboard, listeners, view) else {
        let detail = "too many dashboards are open: close one, or read /dashboard/state";
        return Err(ApiError::new(ApiErrorKind::Busy, detail));
    };
    dashboard.look();
    let mut reply = Response::new(DashboardBody::Events(events));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(reply)
}

fn read_only(request: &Request<Incoming>) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(ApiError::wrong_method(other.as_str(), request.uri().path(), "GET, HEAD")),
    }
}

fn redirect() -> Reply {
    let mut reply = Response::new(DashboardBody::from(Full::default()));
    *reply.status_mut() = http::StatusCode::TEMPORARY_REDIRECT;
    reply.headers_mut().insert(http::header::LOCATION, HeaderValue::from_static("/dashboard"));
    reply
}

fn asset(kind: &'static str, text: Bytes) -> Reply {
    let mut reply = Response::new(DashboardBody::from(Full::from(text)));
    let fields: [(HeaderName, &'static str); 6] = [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-cache"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fields {
        reply.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    reply
}
