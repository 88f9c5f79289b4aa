//! The daemon in the place of envoyproxy/ratelimit.

use std::net::TcpStream;

use slidegate_server::grpc::NAME;
use tonic::transport::Channel;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use crate::process::{Daemon, exchange};

#[tokio::test]
async fn health_serves_every_name_from_the_start() {
    let daemon = Daemon::start(&[]);
    let channel = Channel::from_shared(format!("http://{}", daemon.grpc)).unwrap();
    let mut client = HealthClient::new(channel.connect().await.unwrap());
    // Kubernetes probes of the reference service ask for `ratelimit`.
    for service in ["", "ratelimit", NAME] {
        let request = HealthCheckRequest { service: service.to_owned() };
        let status = client.check(request).await.unwrap().into_inner().status;
        assert_eq!(status, 1, "{service:?} is serving");
    }
}

#[test]
fn load_balancers_may_probe_with_head() {
    let daemon = Daemon::start(&[]);
    let probe = |method| exchange(TcpStream::connect(daemon.http).unwrap(), method, "/healthcheck");
    assert_eq!(probe("GET"), (200, "OK".to_owned()));
    assert_eq!(probe("HEAD"), (200, String::new()));
    assert_eq!(probe("POST").0, 405);
}
