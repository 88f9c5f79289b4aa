//! One guard for all listeners of data.

use std::io::Write;
use std::net::TcpStream;

use http::uri::PathAndQuery;
use slidegate_server::grpc::NAME;
use slidegate_server::grpc::message::{RateLimitRequest, RateLimitResponse};
use slidegate_testkit::server::poll;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use crate::process::{Daemon, Folder};

/// What a call without descriptors comes to: refused as such, or not looked at.
async fn ask(daemon: &Daemon) -> Code {
    let channel = Channel::from_shared(format!("http://{}", daemon.grpc)).unwrap();
    let mut client = Grpc::new(channel.connect().await.unwrap());
    client.ready().await.unwrap();
    let path: PathAndQuery = format!("/{NAME}/ShouldRateLimit").parse().unwrap();
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    client.unary(Request::new(RateLimitRequest::default()), path, codec).await.unwrap_err().code()
}

#[test]
fn requests_over_http_leave_no_room_for_calls_over_grpc() {
    let folder = Folder::new("overload");
    let text = "overload: {enabled: true, concurrency_max: 1, queue_max: 0}\n\
                policies: [{name: api, quotas: [1/h]}]\n";
    let daemon = Daemon::with_config(&folder.write("limits.yaml", text));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(ask(&daemon)), Code::InvalidArgument);

    // A request without its body occupies the only place. The call above has to leave it first, and no other one may
    // come in between: the request would be shed.
    let serving =
        |count| (daemon.metric("slidegate_overload_serving") == Some(count)).then_some(());
    poll("an idle daemon", || Ok(serving(0.0))).unwrap();
    let mut slow = TcpStream::connect(daemon.http).unwrap();
    slow.write_all(b"POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\n").unwrap();
    slow.write_all(b"content-type: application/json\r\n\r\n").unwrap();
    poll("the request", || Ok(serving(1.0))).unwrap();
    assert_eq!(runtime.block_on(ask(&daemon)), Code::Unavailable);
    assert!(daemon.metric("slidegate_overload_requests_total{outcome=\"shed\"}") >= Some(1.0));

    drop(slow);
    poll("room", || Ok((runtime.block_on(ask(&daemon)) == Code::InvalidArgument).then_some(())))
        .unwrap();
}

#[test]
fn without_a_guard_there_is_none() {
    let folder = Folder::new("overload_off");
    let text = "policies: [{name: api, quotas: [1/h]}]\n";
    let daemon = Daemon::with_config(&folder.write("limits.yaml", text));
    assert_eq!(daemon.metric("slidegate_overload_serving"), None);
}
