//! An axum service that allows five requests per minute and address: see README.md.

#![expect(clippy::print_stdout, reason = "the example prints its address")]

use std::error::Error;
use std::net::SocketAddr;

use axum::Router;
use axum::routing::get;
use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{RateLimitLayer, Rule};
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    // Another quota can be set, such as `QUOTA=5/second`.
    let quota: Quota = std::env::var("QUOTA").as_deref().unwrap_or("5/minute").parse()?;
    let limiter = Limiter::new(Policy::new("address", quota)?)?;
    let app = Router::new()
        .route("/", get(|| async { "hello\n" }))
        .layer(RateLimitLayer::new(Rule::new(limiter))?);

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    // The connect info is the client's address. Without it, clients cannot be distinguished.
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await?;
    Ok(())
}
