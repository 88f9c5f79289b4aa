//! One of several processes that share a limit in Redis: see README.md.

#![expect(clippy::print_stdout, reason = "the example prints its address")]

use std::error::Error;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::routing::get;
use slidegate::{FailureMode, Policy, Quota};
use slidegate_redis::Redis;
use slidegate_tower::{RateLimitLayer, Rule};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::var("REDIS_URL").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned());
    let mut redis = Redis::single(&url)?;
    // 20 ms by default. A longer deadline suits a slow network.
    if let Ok(millis) = std::env::var("DEADLINE_MS") {
        redis = redis.deadline(Duration::from_millis(millis.parse()?));
    }
    // Without Redis, each of two processes enforces half of the limit.
    let policy = Policy::builder("shared")
        .quota(Quota::per_minute(5))
        .failure_mode(FailureMode::Local)
        .build()?;
    let limiter = redis.build()?.limiter(policy).nodes(2).build()?;
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::new(Rule::new(limiter))?);

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
