//! A tonic service behind a limit, with a client that reads when to retry.
//!
//! `cargo run -p slidegate-tower --example tonic_service`

#![expect(clippy::print_stdout, reason = "the example prints its results")]

use std::error::Error;

use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{RateLimitLayer, Rule};
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let limiter = Limiter::new(Policy::new("grpc", Quota::per_minute(3))?)?;
    // By the peer's address, which tonic provides.
    let layer = RateLimitLayer::builder().rule(Rule::new(limiter)).grpc().build()?;

    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    // Any service works. This one is part of tonic.
    let (_, health) = tonic_health::server::health_reporter();
    let server = Server::builder().layer(layer).add_service(health);
    let server = tokio::spawn(server.serve_with_incoming(TcpIncoming::from(listener)));

    let channel = Channel::from_shared(format!("http://{address}"))?.connect().await?;
    let mut client = HealthClient::new(channel);
    for number in 1..=4 {
        match client.check(HealthCheckRequest { service: String::new() }).await {
            Ok(_) => println!("call {number}: served"),
            Err(status) => {
                let retry = status.get_details_retry_info().and_then(|info| info.retry_delay);
                println!(
                    "call {number}: {:?}, {}, retry in {retry:?}",
                    status.code(),
                    status.message()
                );
            }
        }
    }
    server.abort();
    Ok(())
}
