//! A layer for tonic whose denials are not gRPC statuses.

use slidegate::{Limiter, Policy, Quota};
use slidegate_tower::{RateLimitLayer, Rule};

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let policy = Policy::new("calls", Quota::per_second(50)).unwrap();
    let rule = Rule::new(Limiter::new(policy).unwrap());
    let layer = RateLimitLayer::builder().rule(rule).build().unwrap();
    let (_, health) = tonic_health::server::health_reporter();
    let server = tonic::transport::Server::builder().layer(layer).add_service(health);
    server.serve("127.0.0.1:0".parse().unwrap()).await.unwrap();
}
