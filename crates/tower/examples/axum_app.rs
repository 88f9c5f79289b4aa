//! An axum app with one limit per address and another per API key, with a tier.
//!
//! `cargo run -p slidegate-tower --example axum_app`

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use http_body_util::{BodyExt, Empty};
use hyper::body::Bytes;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{Gate, KeyBy, Metrics, Missing, RateLimitLayer, Rule};
use tokio::net::TcpListener;

fn app(metrics: &Arc<Metrics>) -> Result<Router, slidegate::Error> {
    // Every client: twenty requests per minute from one address.
    let by_address = Limiter::new(Policy::new("address", Quota::per_minute(20))?)?;

    // With an API key: three requests, or six for paying clients. Requests without a key skip this
    // rule.
    let by_key = Limiter::new(Policy::new("api-key", Quota::per_minute(3))?)?;
    let by_key = Gate::builder(by_key).tier("paid", [Quota::per_minute(6)]).build()?;
    let paid = by_key.tier("paid");
    let field = http::HeaderName::from_static("x-api-key");
    let by_key = Rule::new(by_key)
        .key(KeyBy::header("x-api-key"))
        .missing(Missing::Skip)
        // A real app looks up the key in an outer layer.
        .tier_by(move |head| paid.filter(|_| head.only(&field).is_some_and(is_paid)));

    let layer = RateLimitLayer::builder()
        .rule(Rule::new(by_address).exempt(|head| head.uri().path() == "/health"))
        .rule(by_key)
        .metrics(metrics)
        .build()?;
    Ok(Router::new()
        .route("/", get(|| async { "hello\n" }))
        .route("/health", get(|| async { "ok\n" }))
        .layer(layer))
}

fn is_paid(key: &str) -> bool {
    key.starts_with("paid-")
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let metrics = Arc::new(Metrics::new());
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Without connect info, clients cannot be distinguished, and every response is a 500.
    let app = app(&metrics)?.into_make_service_with_connect_info::<SocketAddr>();
    let server = tokio::spawn(async move { axum::serve(listener, app).await });

    for (key, requests) in [("free-1", 5), ("paid-1", 7)] {
        for _ in 0..requests {
            println!("{key}: {}", ask(address, "/", Some(key)).await?);
        }
    }
    println!("without a key: {}", ask(address, "/", None).await?);
    println!("/health: {}", ask(address, "/health", None).await?);
    println!("\nmetrics for Prometheus:");
    for line in metrics.render().lines().filter(|line| line.starts_with("rate_limit_rejected")) {
        println!("{line}");
    }
    server.abort();
    Ok(())
}

/// Sends a request and returns its result in one line.
async fn ask(address: SocketAddr, path: &str, key: Option<&str>) -> Result<String, Box<dyn Error>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Empty<Bytes>>();
    let mut request = http::Request::get(format!("http://{address}{path}"));
    if let Some(key) = key {
        request = request.header("x-api-key", key);
    }
    let response = client.request(request.body(Empty::new())?).await?;
    let status = response.status();
    let field = |name| {
        let value = response.headers().get(name);
        value.and_then(|value| value.to_str().ok()).unwrap_or("-").to_owned()
    };
    let line = format!(
        "{status}, ratelimit: {}, retry-after: {}",
        field("ratelimit"),
        field("retry-after")
    );
    response.into_body().collect().await?;
    Ok(line)
}
