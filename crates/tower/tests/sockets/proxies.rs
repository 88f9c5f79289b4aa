//! Behind real proxies: no header field that a client forges changes its key.
//!
//! How it would show: a client with a new `X-Forwarded-For` for every request would never see 429.

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

/// Where the proxies are. All of 127.0.0.0/8 is this machine, so that clients can have addresses of
/// their own.
const PROXIES: &str = "127.0.0.1";
const ALICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

/// A service that trusts what the proxies write.
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

/// Forgeries of all kinds, another one for every request.
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
    // Two lines at once too.
    vec![kinds[kind].clone(), kinds[(kind + 1) % kinds.len()].clone()]
}

/// The statuses of so many requests, each with other forgeries.
async fn forge(from: Ipv4Addr, proxy: SocketAddr, requests: u32) -> Vec<u16> {
    let mut statuses = Vec::new();
    for number in 0..requests {
        statuses.push(http1::get(from, proxy, "/", &forged(number)).await.status);
    }
    statuses
}

/// As many as the limit pass, none of the others.
fn limited(requests: u32) -> Vec<u16> {
    (0..requests).map(|number| if number < LIMIT { 200 } else { 429 }).collect()
}

async fn behind(start: fn(SocketAddr) -> Result<ReverseProxy, ServerError>) {
    let upstream = service().await;
    let proxy = tokio::task::spawn_blocking(move || start(upstream)).await.unwrap().unwrap();
    let requests = LIMIT + 13;
    assert_eq!(forge(ALICE, proxy.address(), requests).await, limited(requests));
    // Another client of the same proxy has a limit of its own, whatever it says.
    assert_eq!(forge(BOB, proxy.address(), requests).await, limited(requests));
    // And one who comes past the proxy is known by its own address.
    let past = Ipv4Addr::new(127, 0, 0, 4);
    assert_eq!(forge(past, upstream, requests).await, limited(requests));
    let told = http1::get(past, upstream, "/", &["X-Forwarded-For: 203.0.113.77".to_owned()]).await;
    assert!(told.status == 429 && told.head.contains("retry-after"), "{told:?}");
    assert!(told.body.contains("client"), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_passes_forgeries_on_and_they_change_nothing() {
    behind(ReverseProxy::nginx).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn haproxy_passes_forgeries_on_and_they_change_nothing() {
    behind(ReverseProxy::haproxy).await;
}
