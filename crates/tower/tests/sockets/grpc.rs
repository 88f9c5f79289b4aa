//! tonic over real sockets: a denial is a status that a tonic client understands.

use std::net::SocketAddr;
use std::time::Duration;

use slidegate::{Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{Count, KeyBy, OverloadGuard, OverloadLayer, RateLimitLayer, Rule};
use tokio::net::TcpListener;
use tonic::transport::{Channel, Server};
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

fn clock() -> ManualClock {
    ManualClock::new(Duration::from_secs(1_700_000_000))
}

fn limiter(limit: u32) -> Limiter {
    let policy = Policy::new("grpc", Quota::per_minute(limit)).unwrap();
    Limiter::builder(policy).clock(clock()).build().unwrap()
}

/// The health service of tonic behind a layer, and a client of it.
macro_rules! serve {
    ($layer:expr) => {{
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (_, health) = tonic_health::server::health_reporter();
        let incoming = tonic::transport::server::TcpIncoming::from(listener);
        let server = Server::builder().layer($layer).add_service(health);
        tokio::spawn(server.serve_with_incoming(incoming));
        client(address).await
    }};
}

async fn client(address: SocketAddr) -> HealthClient<Channel> {
    let endpoint = Channel::from_shared(format!("http://{address}")).unwrap();
    HealthClient::new(endpoint.connect().await.unwrap())
}

async fn check(
    client: &mut HealthClient<Channel>,
    service: &str,
    user: &str,
) -> Result<(), Status> {
    let mut request = Request::new(HealthCheckRequest { service: service.to_owned() });
    request.metadata_mut().insert("x-user", user.parse().unwrap());
    client.check(request).await.map(|_| ())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_used_up_quota_is_resource_exhausted_with_a_time_to_retry() {
    let gate = Rule::new(limiter(2)).key(KeyBy::header("x-user"));
    let mut client = serve!(RateLimitLayer::builder().rule(gate).grpc().build().unwrap());
    for _ in 0..2 {
        check(&mut client, "", "alice").await.unwrap();
    }
    let denied = check(&mut client, "", "alice").await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
    assert_eq!(denied.message(), "used up: grpc");
    let retry = denied.get_details_retry_info().unwrap();
    assert_eq!(retry.retry_delay, Some(Duration::from_secs(60)));
    let violations = denied.get_details_quota_failure().unwrap().violations;
    assert_eq!(violations[0].subject, "grpc");
    assert_eq!(denied.metadata().get("retry-after").unwrap(), "60");
    check(&mut client, "", "bob").await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tonic_provides_the_peer_and_failures_have_distinct_statuses() {
    let gate = Rule::new(limiter(1)).count(Count::failed());
    let mut client = serve!(RateLimitLayer::builder().rule(gate).grpc().build().unwrap());
    for _ in 0..5 {
        check(&mut client, "", "x").await.unwrap();
    }
    let unknown = check(&mut client, "no.such.Service", "x").await.unwrap_err();
    assert_eq!(unknown.code(), Code::NotFound);
    let denied = check(&mut client, "", "x").await.unwrap_err();
    assert_eq!(denied.code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_overload_is_unavailable_with_a_time_to_retry() {
    let guard = OverloadGuard::builder("front").concurrency_max(1).clock(clock()).build().unwrap();
    let slidegate_tower::Arrival::Admitted(_busy) = guard.arrive() else { unreachable!() };
    let mut client = serve!(OverloadLayer::new(guard).grpc());
    let shed = check(&mut client, "", "x").await.unwrap_err();
    assert_eq!(shed.code(), Code::Unavailable);
    let retry = shed.get_details_retry_info().unwrap();
    assert!(retry.retry_delay.is_some_and(|delay| !delay.is_zero()));
}
