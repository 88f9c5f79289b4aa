//! A server on loopback, limited by hand with `slidegate` and `slidegate-http`.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use slidegate::{Clock, Limiter, MonotonicClock, Policy};
use slidegate_client::{Pacer, PacingMiddleware};
use slidegate_http::{Fields, PolicyDecision};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<Seen>>>,
    task: JoinHandle<()>,
}

/// One request, as the server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) at: Duration,
    pub(crate) body: Bytes,
    pub(crate) status: StatusCode,
}

/// What the server answers to its n-th request.
type Answers = Arc<dyn Fn(usize) -> (StatusCode, HeaderMap) + Send + Sync>;

#[derive(Clone)]
struct Shared {
    answers: Answers,
    clock: Arc<MonotonicClock>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Server {
    /// Limited by a policy, with all its fields.
    pub(crate) async fn limited(policy: Policy) -> Self {
        let limiter = Limiter::new(policy).unwrap();
        Self::answering(move |_| {
            let decision = limiter.check("client");
            let allowed = decision.is_allowed();
            let status = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
            let mut headers = HeaderMap::new();
            let judged = [PolicyDecision::new(limiter.policy(), &decision)];
            Fields::new().write(&judged, wall(), &mut headers);
            (status, headers)
        })
        .await
    }

    pub(crate) async fn answering(
        answers: impl Fn(usize) -> (StatusCode, HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let clock = Arc::new(MonotonicClock::precise());
        let shared = Shared { answers: Arc::new(answers), clock, seen: Arc::clone(&seen) };
        let app = Router::new().fallback(handle).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn handle(State(shared): State<Shared>, body: Bytes) -> Response {
    let mut seen = shared.seen.lock().unwrap();
    let (status, headers) = (shared.answers)(seen.len());
    let at = Duration::from_nanos(shared.clock.now());
    seen.push(Seen { at, body, status });
    let mut response = Response::default();
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// A refusal with a `Retry-After`.
pub(crate) fn refusal(status: StatusCode, retry_after: &str) -> (StatusCode, HeaderMap) {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_str(retry_after).unwrap());
    (status, headers)
}

pub(crate) fn client(pacer: &Pacer) -> ClientWithMiddleware {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(client).with(PacingMiddleware::new(pacer.clone())).build()
}

#[expect(clippy::disallowed_methods, reason = "a server tells the true time")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
