//! axum and hyper over real sockets.

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::extract::connect_info::MockConnectInfo;
use axum::routing::{get, post};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use slidegate::{Limiter, Policy, Quota};
use slidegate_http::ClientAddress;
use slidegate_tower::{KeyBy, Metrics, PeerAddr, RateLimitDecision, RateLimitLayer, Rule};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tower::{ServiceBuilder, ServiceExt, service_fn};

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
    // After routing, the template is known, and other routes are not affected.
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
    // The outer layer has units left, but the response shows the layer that denied.
    assert!(denied.head.contains("ratelimit: \"user-route\";r=0"), "{}", denied.head);
    assert!(denied.body.contains("user-route"), "{}", denied.body);
    assert_eq!(ask(address, "/items/1", alice).await.status, 200);
    let free = ask(address, "/free", &[]).await;
    assert_eq!(free.status, 200);
    assert!(free.head.contains("ratelimit: \"everything\";r=2;t=360"), "{}", free.head);
    // Unknown paths are counted by the outer layer.
    assert_eq!(ask(address, "/nowhere", &[]).await.status, 404);
    assert_eq!(ask(address, "/free", &[]).await.status, 200);
    assert_eq!(ask(address, "/nowhere", &[]).await.status, 429);
    let sample =
        r#"rate_limit_rejected_total{policy="everything",mode="enforce",outcome="denied"} 1"#;
    assert!(metrics.render().contains(sample), "{}", metrics.render());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_without_connect_info_is_a_server_error() {
    let layer = RateLimitLayer::new(Rule::new(limiter("ip", 100))).unwrap();
    let app = Router::new().route("/", get(|| async { "served" })).layer(layer);
    let (listener, address) = listen().await;
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    let answer = ask(address, "/", &[]).await;
    assert_eq!(answer.status, 500);
    assert!(answer.body.contains("into_make_service_with_connect_info"), "{}", answer.body);
}

/// A directory for a socket that is removed at the end.
struct SocketDir(std::path::PathBuf);

impl SocketDir {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("slidegate-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn path(&self) -> std::path::PathBuf {
        self.0.join("http.sock")
    }
}

impl Drop for SocketDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

// The peer of a unix socket counts as 127.0.0.1. If that is a trusted proxy, its field
// distinguishes clients; otherwise they share a key.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_on_a_unix_socket() {
    let trusting =
        ClientAddress::builder().single_field("x-real-ip").trust("127.0.0.1").build().unwrap();
    for (name, address, bob) in [("own", ClientAddress::peer(), 429), ("field", trusting, 200)] {
        let rule = Rule::new(limiter("client", 1)).key(KeyBy::client(address));
        let layer = RateLimitLayer::new(rule).unwrap();
        let app = Router::new().route("/", get(|| async { "served" })).layer(layer);
        let dir = SocketDir::new(name);
        let listener = UnixListener::bind(dir.path()).unwrap();
        let app = app.into_make_service_with_connect_info::<PeerAddr>();
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        for (client, expected) in [("192.0.2.1", 200), ("192.0.2.1", 429), ("192.0.2.2", bob)] {
            let stream = UnixStream::connect(dir.path()).await.unwrap();
            let answer = http1::exchange(stream, "/", &[format!("X-Real-IP: {client}")]).await;
            assert_eq!(answer.status, expected, "{name} {client}: {}", answer.body);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn axum_with_peer_addr_over_tcp() {
    let layer = RateLimitLayer::new(Rule::new(limiter("ip", 1))).unwrap();
    let app = Router::new().route("/", get(|| async { "served" })).layer(layer);
    let (listener, address) = listen().await;
    let app = app.into_make_service_with_connect_info::<PeerAddr>();
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    assert_eq!(ask(address, "/", &[]).await.status, 200);
    assert_eq!(ask(address, "/", &[]).await.status, 429);
    let other = http1::get(Ipv4Addr::new(127, 0, 0, 2), address, "/", &[]).await;
    assert_eq!(other.status, 200);
}

// Like axum's own extractor: a mock is used if there is no connect info.
#[tokio::test]
async fn axum_with_a_mock_instead_of_connect_info() {
    let peer = SocketAddr::from(([192, 0, 2, 7], 1));
    let app = || {
        let layer = RateLimitLayer::new(Rule::new(limiter("ip", 1))).unwrap();
        Router::new().route("/", get(|| async { "served" })).layer(layer)
    };
    let real = ConnectInfo(SocketAddr::from(([192, 0, 2, 8], 1)));
    for app in [app().layer(MockConnectInfo(peer)), app().layer(MockConnectInfo(PeerAddr(peer)))] {
        let request = || Request::get("/").body(axum::body::Body::empty()).unwrap();
        for expected in [200, 429] {
            assert_eq!(app.clone().oneshot(request()).await.unwrap().status(), expected);
        }
        let mut request = request();
        request.extensions_mut().insert(real);
        assert_eq!(app.clone().oneshot(request).await.unwrap().status(), 200);
    }
}

// If the layer does not share its decision, the handler's error describes the fix.
#[tokio::test]
async fn axum_handlers_extract_the_decision() {
    for shares in [false, true] {
        let builder = RateLimitLayer::builder().rule(Rule::new(limiter("ip", 5)));
        let builder = if shares { builder.share_decision() } else { builder };
        let app = Router::new()
            .route(
                "/",
                get(|decision: RateLimitDecision| async move {
                    format!("{:?} left", decision.remaining())
                }),
            )
            .layer(builder.build().unwrap())
            .layer(MockConnectInfo(SocketAddr::from(([192, 0, 2, 7], 1))));
        let request = Request::get("/").body(axum::body::Body::empty()).unwrap();
        let response = app.oneshot(request).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let body = String::from_utf8(body.to_vec()).unwrap();
        if shares {
            assert_eq!(body, "Some(4) left");
        } else {
            assert!(body.contains("share_decision"), "{body}");
        }
    }
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
