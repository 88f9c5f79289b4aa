//! The admin listener: metrics, health, reload. Apart from the data listeners, and closed to strangers.

mod access;
mod health;
mod metrics;
mod page;
mod reloads;
mod state;
mod stores;

use http::header::CONTENT_TYPE;
use http::{HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;

pub use self::access::{Access, may_listen};
pub use self::page::{Kind, Page};
pub use self::reloads::Reloads;
pub use self::state::{AdminState, Reload, Source, TextPage};
pub use self::stores::StoreMemory;
use crate::engine::Caller;
use crate::http::answer;
use crate::http::json::Json;
use crate::http::problem::{Refusal, RefusalKind};
use crate::http::{Handle, Peer, Reply};

/// Answers one request.
pub async fn handle(state: &AdminState, request: &Request<Incoming>, peer: &Peer) -> Reply {
    match answer(state, request, peer).await {
        Ok(reply) => reply,
        Err(refusal) => refusal.reply(Caller::http(request.headers())),
    }
}

impl Handle for AdminState {
    async fn handle(&self, request: &mut Request<Incoming>, peer: &Peer) -> Reply {
        handle(self, request, peer).await
    }
}

async fn answer(
    state: &AdminState,
    request: &Request<Incoming>,
    peer: &Peer,
) -> Result<Reply, Refusal> {
    let path = request.uri().path();
    let is_known = state.access.check(peer, request.headers());
    // Whoever watches over processes needs no more than yes or no, and often has no token.
    match path {
        "/livez" => return read_only(request).map(|()| health::live()),
        "/readyz" => return read_only(request).map(|()| health::ready(state, is_known.is_ok())),
        _ => is_known?,
    }
    match path {
        "/metrics" => read_only(request).map(|()| text(METRICS_TYPE, metrics::write(state))),
        "/version" => read_only(request).map(|()| version()),
        "/-/reload" => {
            if request.method() != Method::POST {
                return Err(Refusal::wrong_method(request.method().as_str(), path, "POST"));
            }
            access::check_origin(request.headers())?;
            reload(state).await
        }
        path => {
            let Some((_, write)) = state.pages.iter().find(|(name, _)| *name == path) else {
                let known = PATHS.iter().chain(state.pages.iter().map(|(name, _)| name));
                let known = known.copied();
                return Err(Refusal::unknown(RefusalKind::UnknownPath, &"path", path, known));
            };
            read_only(request).map(|()| text(TEXT_TYPE, write()))
        }
    }
}

const PATHS: [&str; 5] = ["/metrics", "/livez", "/readyz", "/version", "/-/reload"];

/// As Prometheus asks for it.
const METRICS_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT_TYPE: &str = "text/plain; charset=utf-8";

fn read_only(request: &Request<Incoming>) -> Result<(), Refusal> {
    match *request.method() {
        Method::GET | Method::HEAD => Ok(()),
        ref other => Err(Refusal::wrong_method(other.as_str(), request.uri().path(), "GET, HEAD")),
    }
}

fn text(kind: &'static str, text: String) -> Reply {
    let mut reply = Response::new(Full::from(text));
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    reply
}

fn version() -> Reply {
    let mut json = Json::with_capacity(64);
    json.open(b'{');
    json.name("name");
    json.text("slidegate");
    json.name("version");
    json.text(env!("CARGO_PKG_VERSION"));
    json.close(b'}');
    answer::plain(json)
}

/// Reads the configuration again, away from the threads that serve.
async fn reload(state: &AdminState) -> Result<Reply, Refusal> {
    let Some(reload) = state.reload.clone() else {
        let detail = "there is no configuration to read again: start with a file";
        return Err(Refusal::new(RefusalKind::NotReloaded, detail));
    };
    let failed = |_| Refusal::new(RefusalKind::Failed, "reading the configuration panicked");
    match tokio::task::spawn_blocking(move || reload()).await.map_err(failed)? {
        Ok(message) => {
            let mut json = Json::with_capacity(64 + message.len());
            json.open(b'{');
            json.name("reloaded");
            json.bool(true);
            json.name("message");
            json.text(&message);
            json.close(b'}');
            Ok(answer::plain(json))
        }
        // What was in force is in force.
        Err(reason) => Err(Refusal::new(RefusalKind::NotReloaded, reason)),
    }
}
