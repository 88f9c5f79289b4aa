//! A server on loopback, limited with `slidegate` and `slidegate-http`, and tokio's paused clock.
//!
//! Requests use real sockets, and time advances only when every unfinished request waits in the
//! pacer. So a round trip takes no time, and no test depends on the speed of the machine.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use http::header::DATE;
use http::{HeaderMap, HeaderValue, StatusCode};
use reqwest_middleware::{ClientBuilder, ClientWithMiddleware};
use slidegate::{Clock, Limiter, MonotonicClock, Policy};
use slidegate_client::{Pacer, PacerBuilder, PacingMiddleware};
use slidegate_http::{Fields, PolicyDecision};
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, yield_now};
use tokio::time::Instant;

/// Tokio's time since an epoch.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokioClock(Instant);

impl TokioClock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn since_epoch(self) -> Duration {
        Duration::from_secs(1_700_000_000) + self.0.elapsed()
    }

    pub(crate) fn wall(self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.since_epoch()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> u64 {
        u64::try_from(self.since_epoch().as_nanos()).unwrap()
    }
}

/// A running server. It ends when this is dropped.
pub(crate) struct Server {
    pub(crate) clock: TokioClock,
    address: SocketAddr,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
    task: JoinHandle<()>,
}

/// A request, as the server received it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) at: Duration,
    pub(crate) body: Bytes,
    pub(crate) status: StatusCode,
}

/// Returns the server's response to its n-th request.
type Answers = Arc<dyn Fn(usize) -> (StatusCode, HeaderMap) + Send + Sync>;

#[derive(Clone)]
struct Shared {
    answers: Answers,
    clock: TokioClock,
    seen: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl Server {
    /// Starts a server that enforces a policy, with all its fields.
    pub(crate) async fn limited(policy: Policy) -> Self {
        let clock = TokioClock::start();
        let limiter = Limiter::builder(policy).clock(clock).build().unwrap();
        Self::with_clock(clock, move |_| {
            let decision = limiter.check("client");
            let allowed = decision.is_allowed();
            let status = if allowed { StatusCode::OK } else { StatusCode::TOO_MANY_REQUESTS };
            let mut headers = HeaderMap::new();
            let decisions = [PolicyDecision::new(limiter.policy(), &decision)];
            Fields::new().write(&decisions, clock.wall(), &mut headers);
            (status, headers)
        })
        .await
    }

    pub(crate) async fn answering(
        answers: impl Fn(usize) -> (StatusCode, HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        Self::with_clock(TokioClock::start(), answers).await
    }

    async fn with_clock(
        clock: TokioClock,
        answers: impl Fn(usize) -> (StatusCode, HeaderMap) + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let shared = Shared { answers: Arc::new(answers), clock, seen: Arc::clone(&seen) };
        let app = Router::new().fallback(handle).with_state(shared);
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { clock, address, seen, task }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub(crate) fn seen(&self) -> Vec<ReceivedRequest> {
        self.seen.lock().unwrap().clone()
    }

    /// Returns a pacer with the server's clock.
    pub(crate) fn pacer(&self) -> PacerBuilder {
        Pacer::builder().clock(self.clock)
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
    seen.push(ReceivedRequest { at: shared.clock.since_epoch(), body, status });
    let mut response = Response::default();
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    // Otherwise hyper sends the machine's time.
    let date = httpdate::fmt_http_date(shared.clock.wall());
    response.headers_mut().insert(DATE, HeaderValue::from_str(&date).unwrap());
    response
}

/// Returns a refusal with a `Retry-After`.
pub(crate) fn refusal(status: StatusCode, retry_after: &str) -> (StatusCode, HeaderMap) {
    let mut headers = HeaderMap::new();
    headers.insert("retry-after", HeaderValue::from_str(retry_after).unwrap());
    (status, headers)
}

pub(crate) fn client(pacer: &Pacer) -> ClientWithMiddleware {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    ClientBuilder::new(client).with(PacingMiddleware::new(pacer.clone())).build()
}

/// Sends one request and waits for its response.
pub(crate) async fn send(
    pacer: &Pacer,
    request: reqwest_middleware::RequestBuilder,
) -> reqwest_middleware::Result<reqwest::Response> {
    Driver::new(pacer).finish(vec![tokio::spawn(request.send())]).await.remove(0)
}

/// Advances tokio's clock for the requests of a pacer.
pub(crate) struct Driver<'a> {
    pacer: &'a Pacer,
    real: MonotonicClock,
    deadline: u64,
}

/// The step by which time advances.
const STEP: Duration = Duration::from_millis(1);

/// The maximum real time of a test.
const REAL_TIME_MAX: Duration = Duration::from_secs(120);

impl<'a> Driver<'a> {
    pub(crate) fn new(pacer: &'a Pacer) -> Self {
        let real = MonotonicClock::precise();
        let deadline = real.now() + u64::try_from(REAL_TIME_MAX.as_nanos()).unwrap();
        Self { pacer, real, deadline }
    }

    /// Runs requests until they end.
    pub(crate) async fn finish<T>(&self, requests: Vec<JoinHandle<T>>) -> Vec<T> {
        loop {
            match requests.iter().filter(|request| !request.is_finished()).count() {
                0 => break,
                unfinished => self.step(unfinished).await,
            }
        }
        let mut results = Vec::new();
        for request in requests {
            results.push(request.await.unwrap());
        }
        results
    }

    /// Advances time if all `unfinished` requests wait in the pacer, otherwise lets them run.
    ///
    /// The runtime is never idle, so tokio does not advance the paused clock itself.
    pub(crate) async fn step(&self, unfinished: usize) {
        assert!(self.real.now() < self.deadline, "requests neither end nor wait");
        if self.pacer.stats().waiting == unfinished {
            tokio::time::advance(STEP).await;
        } else {
            yield_now().await;
        }
    }
}
