//! Behind real proxies: no forged header field changes a client's key. nginx is configured as in
//! `docs/how-to/unix-socket-nginx.md`.
//!
//! Otherwise, a client with a new `X-Forwarded-For` for every request would never get a 429.

use std::net::{Ipv4Addr, SocketAddr};

use axum::Router;
use axum::routing::get;
use slidegate::{Limiter, Policy, Quota};
use slidegate_http::{ClientAddress, HopField};
use slidegate_testkit::server::{ReverseProxy, ServerError};
use slidegate_tower::{KeyBy, RateLimitLayer, Rule};
use tokio::net::TcpListener;

use crate::http1;

const LIMIT: u32 = 5;

/// The address of the proxies. All of 127.0.0.0/8 is this machine, so that clients can have
/// different addresses.
const PROXIES: &str = "127.0.0.1";
const ALICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// Starts a service that trusts the proxies.
async fn service() -> SocketAddr {
    let client = ClientAddress::builder().field(HopField::XForwardedFor).trust(PROXIES).build();
    let policy = Policy::new("client", Quota::per_hour(LIMIT)).unwrap();
    let gate = Rule::new(Limiter::new(policy).unwrap()).key(KeyBy::client(client.unwrap()));
    let app = Router::new()
        .route("/", get(|| async { "served" }))
        .layer(RateLimitLayer::new(gate).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    address
}

/// Returns forged fields of all kinds, different for every request.
fn forged(number: u32) -> Vec<String> {
    let kinds = [
        format!("X-Forwarded-For: 203.0.113.{number}"),
        format!("X-Forwarded-For: 203.0.113.{number}, 127.0.0.1"),
        format!("x-forwarded-for: 2001:db8::{number}"),
        format!("X-Forwarded-For: unknown, \"{number}"),
        format!("Forwarded: for=203.0.113.{number}"),
        format!("X-Real-IP: 203.0.113.{number}"),
    ];
    let kind = usize::try_from(number).unwrap() % kinds.len();
    // Two lines as well.
    vec![kinds[kind].clone(), kinds[(kind + 1) % kinds.len()].clone()]
}

/// Sends requests with different forged fields. Returns the statuses.
async fn forge(from: Ipv4Addr, proxy: SocketAddr, requests: u32) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in 0..requests {
        statuses.push(http1::get(from, proxy, "/", &forged(number)).await.status);
    }
    statuses
}

/// Expects as many allowed requests as the limit, and denials after them.
fn limited(requests: u32) -> Vec<u16> {
    (0..requests).map(|number| if number < LIMIT { 200 } else { 429 }).collect()
}

async fn behind(start: fn(SocketAddr) -> Result<ReverseProxy, ServerError>) {
    let upstream = service().await;
    let proxy = tokio::task::spawn_blocking(move || start(upstream)).await.unwrap().unwrap();
    let requests = LIMIT + 13;
    assert_eq!(forge(ALICE, proxy.address(), requests).await, limited(requests));
    // Another client of the same proxy has a separate limit, whatever it sends.
    assert_eq!(forge(BOB, proxy.address(), requests).await, limited(requests));
    // A client that bypasses the proxy is counted by its own address.
    let past = Ipv4Addr::new(127, 0, 0, 4);
    assert_eq!(forge(past, upstream, requests).await, limited(requests));
    let denied =
        http1::get(past, upstream, "/", &["X-Forwarded-For: 203.0.113.77".to_owned()]).await;
    assert!(denied.status == 429 && denied.head.contains("retry-after"), "{denied:?}");
    assert!(denied.body.contains("client"), "{denied:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_fields_through_nginx_change_nothing() {
    behind(ReverseProxy::nginx).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forged_fields_through_haproxy_change_nothing() {
    behind(ReverseProxy::haproxy).await;
}
