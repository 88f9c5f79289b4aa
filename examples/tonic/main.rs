//! A tonic service that allows five calls per minute and address, and a client: see README.md.

#![expect(clippy::print_stdout, reason = "the example prints its address and results")]

use std::error::Error;

use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{RateLimitLayer, Rule};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(url) => call(url).await,
        None => serve().await,
    }
}

async fn serve() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(Policy::new("calls", Quota::per_minute(5))?)?;
    // `grpc` makes denials RESOURCE_EXHAUSTED with a RetryInfo, instead of an HTTP status.
    let layer = RateLimitLayer::builder().rule(Rule::new(limiter)).grpc().build()?;
    // Any service works. This one is part of tonic.
    let (_, health) = tonic_health::server::health_reporter();

    let address = std::env::var("LISTEN").unwrap_or_else(|_| "127.0.0.1:3000".to_owned());
    let listener = TcpListener::bind(address).await?;
    println!("http://{}/", listener.local_addr()?);
    let server = Server::builder().layer(layer).add_service(health);
    server.serve_with_incoming(TcpIncoming::from(listener)).await?;
    Ok(())
}

/// Calls the service six times.
async fn call(url: String) -> Result<(), Box<dyn Error>> {
    let channel = Channel::from_shared(url)?.connect().await?;
    let mut client = HealthClient::new(channel);
    for number in 1..=6 {
        match client.check(HealthCheckRequest::default()).await {
            Ok(_) => println!("call {number}: ok"),
            Err(status) => {
                let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
                println!("call {number}: {:?}, retry in {retry:?}", status.code());
            }
        }
    }
    Ok(())
}
