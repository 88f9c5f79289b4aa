//! axum and hyper over real sockets.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::routing::{get, post};
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{KeyBy, Metrics, PeerAddr, RateLimitLayer, Rule};
use tokio::net::TcpListener;
use tower::{ServiceBuilder, service_fn};

use crate::http1;

fn limiter(name: &str, limit: u32) -> Limiter {
    Limiter::new(Policy::new(name, Quota::per_hour(limit)).unwrap()).unwrap()
}

async fn listen() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

async fn ask(address: SocketAddr, path: &str, lines: &[&str]) -> http1::Answer {
    let lines: Vec<String> = lines.iter().map(ToString::to_string).collect();
    http1::get(Ipv4Addr::LOCALHOST, address, path, &lines).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_before_and_after_routing() {
    let metrics = Arc::new(Metrics::new());
    let outside = RateLimitLayer::builder()
        .rule(Rule::new(limiter("everything", 6)))
        .metrics(&metrics)
        .build()
        .unwrap();
    // After routing: the template is known, and other routes are not concerned.
    let user_route =
        Rule::new(limiter("user-route", 1)).key(KeyBy::header("x-user").and(KeyBy::route()));
    let inside = RateLimitLayer::new(user_route).unwrap();
    let app = Router::new()
        .route("/users/{id}", get(|| async { "user" }))
        .route("/items/{id}", get(|| async { "item" }))
        .route_layer(inside)
        .route("/free", get(|| async { "free" }).merge(post(|| async { "posted" })))
        .layer(outside);
    let (listener, address) = listen().await;
    let app = app.into_make_service_with_connect_info::<SocketAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });

    let alice = &["x-user: alice"];
    assert_eq!(ask(address, "/users/1", alice).await.status, 200);
    // Another id is the same route.
    let denied = ask(address, "/users/2", alice).await;
    assert_eq!(denied.status, 429);
    assert!(denied.head.contains("retry-after: 360"), "{}", denied.head);
    // The layer outside has units left, but it is not its turn to tell.
    assert!(denied.head.contains("ratelimit: \"user-route\";r=0"), "{}", denied.head);
    assert!(denied.body.contains("user-route"), "{}", denied.body);
    assert_eq!(ask(address, "/items/1", alice).await.status, 200);
    let free = ask(address, "/free", &[]).await;
    assert_eq!(free.status, 200);
    assert!(free.head.contains("ratelimit: \"everything\";r=2;t=360"), "{}", free.head);
    // Paths that lead nowhere are counted by the layer that is outside.
    assert_eq!(ask(address, "/nowhere", &[]).await.status, 404);
    assert_eq!(ask(address, "/free", &[]).await.status, 200);
    assert_eq!(ask(address, "/nowhere", &[]).await.status, 429);
    let told =
        r#"rate_limit_rejected_total{policy="everything",mode="enforce",outcome="denied"} 1"#;
    assert!(metrics.render().contains(told), "{}", metrics.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_without_connect_info_is_a_loud_error() {
    let layer = RateLimitLayer::new(Rule::new(limiter("ip", 100))).unwrap();
    let app = Router::new().route("/", get(|| async { "served" })).layer(layer);
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let answer = ask(address, "/", &[]).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("into_make_service_with_connect_info"), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hyper_with_the_peer_as_an_extension() {
    let layer = RateLimitLayer::new(Rule::new(limiter("ip", 2))).unwrap();
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let service = ServiceBuilder::new()
                .map_request(move |mut request: Request<Incoming>| {
                    request.extensions_mut().insert(PeerAddr(peer));
                    request
                })
                .layer(layer.clone())
                .service(service_fn(|_: Request<Incoming>| async {
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from("served")))
                }));
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), TowerToHyperService::new(service)),
            );
        }
    });
    for expected in [200, 200, 429] {
        assert_eq!(ask(address, "/", &[]).await.status, expected);
    }
}
