//! Envoy itself, with its rate limit filter, in front of a small service.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{HeaderMap, HeaderValue, Request, StatusCode};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo};
use slidegate_server::domain::Options;
use slidegate_server::spec::Unit;
use slidegate_testkit::server::{ReverseProxy, poll_async};
use tokio::net::TcpListener;

use super::served::{Served, users};

/// Answers everything with 200.
async fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let answer = service_fn(|_: Request<Incoming>| async {
                Ok::<_, Infallible>(http::Response::new(Empty::<Bytes>::new()))
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(async move {
                let _ = http.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    address
}

/// Starts Envoy between clients and the upstream. It calls `limits` with a descriptor of the header
/// `x-user` for each of `keys`.
pub(crate) async fn envoy(
    limits: SocketAddr,
    failure_mode_deny: bool,
    keys: &'static [&'static str],
) -> ReverseProxy {
    let upstream = upstream().await;
    let start =
        move || ReverseProxy::envoy(|port| config(port, upstream, limits, failure_mode_deny, keys));
    tokio::task::spawn_blocking(start).await.unwrap().unwrap()
}

/// The keys of most tests.
const USER: &[&str] = &["user"];

fn config(
    port: u16,
    upstream: SocketAddr,
    limits: SocketAddr,
    failure_mode_deny: bool,
    keys: &[&str],
) -> String {
    let action = |key: &&str| {
        let action = format!("request_headers: {{header_name: x-user, descriptor_key: {key}}}");
        format!("\n                  - actions:\n                    - {action}")
    };
    let actions = keys.iter().map(action).collect::<Vec<_>>().concat();
    let types = "type.googleapis.com/envoy.extensions";
    let cluster = |name: &str, address: SocketAddr, options: &str| {
        format!(
            "
  - name: {name}
    type: STATIC
    connect_timeout: 5s{options}
    load_assignment:
      cluster_name: {name}
      endpoints:
      - lb_endpoints:
        - endpoint:
            address: {{socket_address: {{address: 127.0.0.1, port_value: {}}}}}",
            address.port()
        )
    };
    let http2 = format!(
        "
    typed_extension_protocol_options:
      envoy.extensions.upstreams.http.v3.HttpProtocolOptions:
        \"@type\": {types}.upstreams.http.v3.HttpProtocolOptions
        explicit_http_config: {{http2_protocol_options: {{}}}}"
    );
    format!(
        "static_resources:
  listeners:
  - address: {{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          \"@type\": {types}.filters.network.http_connection_manager.v3.HttpConnectionManager
          stat_prefix: clients
          route_config:
            virtual_hosts:
            - name: all
              domains: [\"*\"]
              routes:
              - match: {{prefix: /}}
                route:
                  cluster: upstream
                  rate_limits:{actions}
          http_filters:
          - name: envoy.filters.http.ratelimit
            typed_config:
              \"@type\": {types}.filters.http.ratelimit.v3.RateLimit
              domain: shop
              timeout: 10s
              failure_mode_deny: {failure_mode_deny}
              enable_x_ratelimit_headers: DRAFT_VERSION_03
              enable_retry_after_header: true
              rate_limit_service:
                transport_api_version: V3
                grpc_service: {{envoy_grpc: {{cluster_name: limits}}}}
          - name: envoy.filters.http.router
            typed_config: {{\"@type\": {types}.filters.http.router.v3.Router}}
  clusters:{}{}
",
        cluster("upstream", upstream, ""),
        cluster("limits", limits, &http2),
    )
}

#[derive(Clone)]
pub(crate) struct Caller {
    client: Client<HttpConnector, Empty<Bytes>>,
    address: SocketAddr,
}

impl Caller {
    pub(crate) fn new(envoy: &ReverseProxy) -> Self {
        let client = Client::builder(TokioExecutor::new()).build_http();
        Self { client, address: envoy.address() }
    }

    async fn get(&self, user: impl AsRef<[u8]>) -> (StatusCode, HeaderMap) {
        let user = HeaderValue::from_bytes(user.as_ref()).unwrap();
        let request = Request::get(format!("http://{}/", self.address)).header("x-user", user);
        let response = self.client.request(request.body(Empty::new()).unwrap()).await.unwrap();
        (response.status(), response.headers().clone())
    }

    pub(crate) async fn status(&self, user: impl AsRef<[u8]>) -> u16 {
        self.get(user).await.0.as_u16()
    }
}

fn field<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_over_a_sliding_window_and_fields_arrive() {
    let served = Served::start(&users(3, Unit::Minute), Options::default()).await;
    let envoy = envoy(served.address, true, USER).await;
    let caller = Caller::new(&envoy);
    let second = Duration::from_secs(1);

    let (status, headers) = caller.get("alice").await;
    assert_eq!(status, 200, "{}", envoy.output());
    assert_eq!(field(&headers, "x-ratelimit-limit"), "3, 3;w=60;name=\"per-user\"");
    assert_eq!(field(&headers, "x-ratelimit-remaining"), "2");
    assert_eq!(field(&headers, "x-ratelimit-reset"), "60");
    served.clock.advance(50 * second);
    assert_eq!((caller.status("alice").await, caller.status("alice").await), (200, 200));

    // Five seconds into the next minute of the clock, and still the window of the last sixty.
    served.clock.advance(5 * second);
    let (status, headers) = caller.get("alice").await;
    assert_eq!(status, 429);
    assert_eq!(field(&headers, "x-ratelimit-remaining"), "0");
    assert_eq!(field(&headers, "x-ratelimit-reset"), "5");
    assert_eq!(field(&headers, "retry-after"), "5");
    assert_eq!(caller.status("bob").await, 200, "other users have their own counts");

    // One comes free with the first, two with the others, none in between.
    served.clock.advance(5 * second);
    assert_eq!((caller.status("alice").await, caller.status("alice").await), (200, 429));
    served.clock.advance(49 * second);
    assert_eq!(caller.status("alice").await, 429);
    served.clock.advance(second);
    let mut passed = 0;
    for _ in 0..10 {
        passed += usize::from(caller.status("alice").await == 200);
    }
    assert_eq!(passed, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_obeys_retry_after_is_not_denied_again() {
    let served = Served::start(&users(1, Unit::Minute), Options::default()).await;
    let envoy = envoy(served.address, true, USER).await;
    let caller = Caller::new(&envoy);
    assert_eq!(caller.status("alice").await, 200);
    for elapsed in [300, 59_500] {
        served.clock.set(Duration::from_secs(1_700_000_000) + Duration::from_millis(elapsed));
        let (status, headers) = caller.get("alice").await;
        assert_eq!(status, 429);
        assert_eq!(field(&headers, "retry-after"), field(&headers, "x-ratelimit-reset"));
        // Half a second is not zero seconds.
        let wait: u64 = field(&headers, "retry-after").parse().unwrap();
        assert_eq!(wait, (60_000 - elapsed).div_ceil(1000));
    }
    served.clock.advance(Duration::from_secs(1));
    assert_eq!(caller.status("alice").await, 200);
}

/// What Envoy makes of requests while the service is there, and after it is gone.
async fn without_the_service(failure_mode_deny: bool) -> (u16, u16) {
    let served = Served::start(&users(1, Unit::Hour), Options::default()).await;
    let envoy = envoy(served.address, failure_mode_deny, USER).await;
    let caller = Caller::new(&envoy);
    assert_eq!(caller.status("alice").await, 200);
    let there = caller.status("alice").await;
    served.stop().await;
    (there, caller.status("alice").await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_service_requests_pass_if_envoy_fails_open() {
    assert_eq!(without_the_service(false).await, (429, 200));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_service_requests_fail_if_envoy_fails_closed() {
    assert_eq!(without_the_service(true).await, (429, 500));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_configuration_under_load_fails_no_request_and_loses_no_count() {
    const CALLERS: u64 = 4;
    const SWAPS: u32 = 40;
    let most = 4_000_000;
    let served = Served::start(&users(most, Unit::Day), Options::default()).await;
    // Denies on failure, so that no failure could pass for an answer.
    let envoy = envoy(served.address, true, USER).await;
    let done = Arc::new(AtomicBool::new(false));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (caller, done) = (Caller::new(&envoy), Arc::clone(&done));
            tokio::spawn(async move {
                let mut passed = 0_u32;
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(caller.status("alice").await, 200);
                    passed += 1;
                }
                passed
            })
        })
        .collect();
    let total = || {
        let plan = served.engine.plan();
        let series = plan.domains().get("shop").unwrap().statistics().series();
        let (_, counts) = series.iter().find(|(name, _)| name == "shop.user").unwrap().clone();
        counts.total_hits.get()
    };
    for swap in 1..=SWAPS {
        // Some requests between any two configurations.
        let before = total();
        let asked = async || (total() >= before + CALLERS).then_some(());
        poll_async("some requests", asked).await.unwrap();
        served.engine.swap(&users(most - swap, Unit::Day)).unwrap();
    }
    done.store(true, Ordering::Relaxed);
    let mut passed = 0;
    for caller in callers {
        passed += caller.await.unwrap();
    }
    assert!(u64::from(passed) >= u64::from(SWAPS) * CALLERS);
    let (_, headers) = Caller::new(&envoy).get("alice").await;
    let remaining = (most - SWAPS - passed - 1).to_string();
    assert_eq!(field(&headers, "x-ratelimit-remaining"), remaining);
}
