//! The admin listener: metrics, health, reload. It is separate from the data listeners and
//! restricted.

mod access;
mod health;
mod metrics;
mod state;

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde_json::json;

pub use self::access::{Access, may_listen};
pub use self::metrics::ResultCounts;
pub(crate) use self::state::reloads;
pub use self::state::{AdminState, MetricsSource, Reload, TextPage, Unready};
use slidegate_gate::Caller;
pub use slidegate_gate::{Kind, Page};

use crate::dashboard::{self, DashboardBody};
use crate::http::error::{ApiError, ApiErrorKind};
use crate::http::{Handle, Peer, Reply, reply};

impl Handle for AdminState {
    type Body = DashboardBody;

    async fn handle(
        &self,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> Response<DashboardBody> {
        let replied = match handle_dashboard(self, request, peer).await {
            Some(replied) => replied,
            None => handle(self, request, peer).await.map(|reply| reply.map(DashboardBody::from)),
        };
        replied.unwrap_or_else(|error| {
            error.reply(Caller::http(request.headers())).map(DashboardBody::from)
        })
    }
}

async fn handle_dashboard(
    state: &AdminState,
    request: &mut Request<Incoming>,
    peer: &Peer,
) -> Option<Result<Response<DashboardBody>, ApiError>> {
    let dashboard = state.dashboard.as_ref()?;
    let path = request.uri().path();
    let is_public = dashboard::is_public(path);
    if !is_public {
        if !path.starts_with("/dashboard/") {
            return None;
        }
        if let Err(error) = state.access.check(peer, request.uri(), request.headers()) {
            return Some(Err(error));
        }
    }
    dashboard::handle(dashboard, &state.listeners, request, peer).await
}

/// Serves metrics on every path, and nothing else.
#[derive(Debug)]
pub struct MetricsOnly(pub Arc<AdminState>);

impl Handle for MetricsOnly {
    type Body = Full<Bytes>;

    async fn handle(&self, request: &mut Request<Incoming>, _: &Peer) -> Reply {
        let page = match read_only(request) {
            Ok(()) => metrics::page(&self.0).await,
            Err(error) => Err(error),
        };
        let reply = page.map(|page| text(METRICS_TYPE, page));
        reply.unwrap_or_else(|error| error.reply(Caller::http(request.headers())))
    }
}

async fn handle(
    state: &AdminState,
    request: &Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, ApiError> {
    let path = request.uri().path();
    let is_known = state.access.check(peer, request.uri(), request.headers());
    // Supervisors need only yes or no, and often have no token.
    match path {
        "/livez" => return read_only(request).map(|()| health::live()),
        "/readyz" => return read_only(request).map(|()| health::ready(state, is_known.is_ok())),
        _ => is_known?,
    }
    match path {
        "/metrics" => {
            read_only(request)?;
            Ok(text(METRICS_TYPE, metrics::page(state).await?))
        }
        "/version" => read_only(request).map(|()| version()),
        "/-/reload" => {
            if request.method() != Method::POST {
                return Err(ApiError::wrong_method(request.method().as_str(), path, "POST"));
            }
            reload(state, may_remove(request)?).await
        }
        path => {
            let Some((_, write)) = state.pages.iter().find(|(name, _)| *name == path) else {
                let known = PATHS.iter().chain(state.pages.iter().map(|(name, _)| name));
                let known = known.copied();
                return Err(ApiError::unknown(ApiErrorKind::UnknownPath, &"path", path, known));
            };
            read_only(request)?;
            let write = Arc::clone(write);
            Ok(text(TEXT_TYPE, state.write_page(move || write()).await?))
        }
    }
}

const PATHS: [&str; 5] = ["/metrics", "/livez", "/readyz", "/version", "/-/reload"];

/// The content type that Prometheus expects.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

fn read_only(request: &Request<Incoming>) -> Result<(), ApiError> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(ApiError::wrong_method(other.as_str(), request.uri().path(), "GET, HEAD")),
    }
}

fn text(kind: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Full::from(text));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn version() -> Reply {
    reply::plain(&json!({"name": "slidegate", "version": env!("CARGO_PKG_VERSION")}))
}

/// Returns whether a reload may remove active limits.
fn may_remove(request: &Request<Incoming>) -> Result<bool, ApiError> {
    match request.uri().query() {
        None | Some("" | "allow_removed=false") => Ok(false),
        Some("allow_removed=true") => Ok(true),
        Some(_) => {
            let detail = "unknown query: use `allow_removed=true`, or none";
            Err(ApiError::new(ApiErrorKind::Malformed, detail))
        }
    }
}

/// Reloads the configuration on a separate thread.
async fn reload(state: &AdminState, may_remove: bool) -> Result<Reply, ApiError> {
    let Some(reload) = state.reload.clone() else {
        let detail = "no configuration file to reload: start the daemon with --config";
        return Err(ApiError::new(ApiErrorKind::NotReloaded, detail));
    };
    let failed = |_| ApiError::new(ApiErrorKind::Failed, "reading the configuration panicked");
    match tokio::task::spawn_blocking(move || reload(may_remove)).await.map_err(failed)? {
        Ok(message) => Ok(reply::plain(&json!({"reloaded": true, "message": message}))),
        // The current configuration is kept.
        Err(reason) => Err(ApiError::new(ApiErrorKind::NotReloaded, reason)),
    }
}
