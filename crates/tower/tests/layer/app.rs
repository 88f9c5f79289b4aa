//! A small service with rules, called without a network.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response, StatusCode};
use slidegate::{Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{PeerAddr, RateLimitLayer, RateLimitLayerBuilder, Rule};
use tower::{Layer, Service, ServiceExt};

/// Responds with the status in the path, 200 by default, and counts requests.
#[derive(Debug, Clone, Default)]
pub(crate) struct App {
    pub(crate) served: Arc<AtomicU64>,
}

impl App {
    pub(crate) fn served(&self) -> u64 {
        self.served.load(Ordering::Relaxed)
    }
}

impl Service<Request<()>> for App {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(
        &mut self,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        self.served.fetch_add(1, Ordering::Relaxed);
        let mut response = Response::new("served".to_owned());
        if let Ok(status) = request.uri().path()[1..].parse::<u16>() {
            *response.status_mut() = StatusCode::from_u16(status).unwrap();
        }
        ready(Ok(response))
    }
}

pub(crate) fn clock() -> ManualClock {
    ManualClock::new(Duration::from_secs(1_700_000_000))
}

/// Returns a limiter with a limit per minute and this clock.
pub(crate) fn limiter(name: &str, limit: u32, clock: &ManualClock) -> Limiter {
    let policy = Policy::new(name, Quota::per_minute(limit)).unwrap();
    Limiter::builder(policy).clock(clock.clone()).memory_limit(4 << 20).build().unwrap()
}

pub(crate) fn layer(gates: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
    let builder = gates.into_iter().fold(RateLimitLayer::builder(), RateLimitLayerBuilder::rule);
    builder.build().unwrap()
}

/// Returns a request from an address.
pub(crate) fn from(peer: &str) -> Request<()> {
    let mut request = Request::new(());
    let peer: SocketAddr = format!("{peer}:4711").parse().unwrap();
    request.extensions_mut().insert(PeerAddr(peer));
    request
}

/// Returns a request from one address, with a header field.
pub(crate) fn with(name: &'static str, value: &str) -> Request<()> {
    let mut request = from("192.0.2.1");
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

/// Returns a request from one address, for a path.
pub(crate) fn get(path: &str) -> Request<()> {
    let mut request = from("192.0.2.1");
    *request.uri_mut() = path.parse().unwrap();
    request
}

pub(crate) async fn send<S>(service: &S, request: Request<()>) -> Response<String>
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible> + Clone,
{
    service.clone().oneshot(request).await.unwrap()
}

pub(crate) async fn status<S>(service: &S, request: Request<()>) -> u16
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible> + Clone,
{
    send(service, request).await.status().as_u16()
}

/// Returns an app behind a layer.
pub(crate) fn behind<A: Clone>(
    layer: &RateLimitLayer<A>,
) -> (App, <RateLimitLayer<A> as Layer<App>>::Service) {
    let app = App::default();
    (app.clone(), layer.layer(app))
}
