//! A tonic client over a real socket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use http::uri::PathAndQuery;
use prost_types::value::Kind;
use slidegate_server::domain::Options;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::grpc::message::{
    DescriptorEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};
use slidegate_server::grpc::{self, GrpcLimits, MESSAGE_MAX, NAME};
use slidegate_server::spec::Unit;
use slidegate_testkit::server::PATIENCE;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Code, Request, Status};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_prost::ProstCodec;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::frozen_time::FrozenTime;

use super::served::{Served, users};

pub(crate) const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;

pub(crate) async fn channel(served: &Served) -> Channel {
    let endpoint = Channel::from_shared(format!("http://{}", served.address)).unwrap();
    endpoint.connect().await.unwrap()
}

pub(crate) async fn ask(
    channel: &Channel,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    call(channel, "ShouldRateLimit", request).await
}

async fn call(
    channel: &Channel,
    method: &str,
    request: RateLimitRequest,
) -> Result<RateLimitResponse, Status> {
    send(channel, method, Request::new(request)).await
}

/// Sends a request with its metadata.
pub(crate) async fn send(
    channel: &Channel,
    method: &str,
    request: Request<RateLimitRequest>,
) -> Result<RateLimitResponse, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path: PathAndQuery = format!("/{NAME}/{method}").parse().unwrap();
    let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    Ok(client.unary(request, path, codec).await?.into_inner())
}

pub(crate) fn user(name: &str) -> RateLimitRequest {
    let entry = DescriptorEntry { key: "user".to_owned(), value: name.to_owned() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    RateLimitRequest { domain: "shop".to_owned(), descriptors: vec![descriptor], hits_addend: 0 }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_answered_with_everything_that_is_known() {
    let mut options = Options::default();
    options.envoy.response_headers = true;
    options.envoy.dynamic_metadata = true;
    let served = Served::start(&users(2, Unit::Minute), options).await;
    let channel = channel(&served).await;
    let first = ask(&channel, user("alice")).await.unwrap();
    let status = first.statuses[0].clone();
    assert_eq!((first.overall_code, status.code, status.limit_remaining), (OK, OK, 1));
    let limit = status.current_limit.unwrap();
    assert_eq!((limit.requests_per_unit, limit.unit, limit.name.as_str()), (2, 2, "per-user"));
    let headers: Vec<_> = first
        .response_headers_to_add
        .iter()
        .map(|header| (header.key.as_str(), header.value.as_str()))
        .collect();
    let expected =
        [("RateLimit-Limit", "2"), ("RateLimit-Remaining", "1"), ("RateLimit-Reset", "60")];
    assert_eq!(headers, expected);
    let domain = first.dynamic_metadata.unwrap().fields.remove("domain").unwrap();
    assert_eq!(domain.kind, Some(Kind::StringValue("shop".to_owned())));

    served.clock.advance(Duration::from_millis(250));
    ask(&channel, user("alice")).await.unwrap();
    let denied = ask(&channel, user("alice")).await.unwrap();
    assert_eq!((denied.overall_code, denied.statuses[0].code), (OVER_LIMIT, OVER_LIMIT));
    // The first unit is free again after 59.75 seconds.
    let until = denied.statuses[0].duration_until_reset.unwrap();
    assert_eq!((until.seconds, until.nanos), (60, 0));
    assert_eq!(ask(&channel, user("bob")).await.unwrap().overall_code, OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_answered_is_a_typed_error() {
    let served = Served::start(&users(2, Unit::Minute), Options::default()).await;
    let channel = channel(&served).await;
    let with = |set: fn(&mut RateLimitRequest)| {
        let mut request = user("a");
        set(&mut request);
        request
    };
    let unit = |request: &mut RateLimitRequest| {
        request.descriptors[0].limit = Some(RateLimitOverride { requests_per_unit: 1, unit: 0 });
    };
    for (request, part) in [
        (with(|request| request.domain.clear()), "rate limit domain must not be empty"),
        (
            with(|request| request.descriptors.clear()),
            "rate limit descriptor list must not be empty",
        ),
        (with(unit), "unknown unit 0 of a limit"),
        (
            with(|request| request.descriptors = vec![RateLimitDescriptor::default(); 65]),
            "65 descriptors",
        ),
    ] {
        let status = ask(&channel, request).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        assert!(status.message().contains(part), "{status}");
    }
    let long = ask(&channel, user(&"x".repeat(MESSAGE_MAX))).await.unwrap_err();
    assert_eq!(long.code(), Code::ResourceExhausted, "{long}");
    let unknown = call(&channel, "NoSuchMethod", user("a")).await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
    // The connection is as good as before.
    assert_eq!(ask(&channel, user("a")).await.unwrap().overall_code, OK);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_limit_passes_however_many_ask_at_once() {
    let served = Served::start(&users(50, Unit::Minute), Options::default()).await;
    let channel = channel(&served).await;
    let calls = (0..200).map(|_| {
        let channel = channel.clone();
        tokio::spawn(async move { ask(&channel, user("a")).await.unwrap().overall_code })
    });
    let mut passed = 0;
    for call in calls.collect::<Vec<_>>() {
        passed += usize::from(call.await.unwrap() == OK);
    }
    assert_eq!(passed, 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn health_is_reported_under_every_name() {
    let served = Served::start(&users(1, Unit::Minute), Options::default()).await;
    let mut client = HealthClient::new(channel(&served).await);
    let mut check = async |service: &str| {
        let request = HealthCheckRequest { service: service.to_owned() };
        client.check(request).await.map(|response| response.into_inner().status)
    };
    for service in ["", NAME, "ratelimit"] {
        assert_eq!(check(service).await.unwrap(), 1, "{service} is serving");
    }
    served.service.health().set(false).await;
    for service in ["", NAME, "ratelimit"] {
        assert_eq!(check(service).await.unwrap(), 2, "{service} is not");
    }
    assert_eq!(check("unknown").await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reflection_names_the_service_and_shows_its_file() {
    let served = Served::start(&users(1, Unit::Minute), Options::default()).await;
    let mut client = ServerReflectionClient::new(channel(&served).await);
    let ask =
        |message| ServerReflectionRequest { host: String::new(), message_request: Some(message) };
    let questions = vec![
        ask(MessageRequest::ListServices(String::new())),
        ask(MessageRequest::FileContainingSymbol(NAME.to_owned())),
    ];
    let stream = tokio_stream::iter(questions);
    let mut answers = client.server_reflection_info(stream).await.unwrap().into_inner();
    let mut next = async || answers.message().await.unwrap().unwrap().message_response.unwrap();
    let MessageResponse::ListServicesResponse(list) = next().await else { unreachable!("no list") };
    let names: BTreeSet<String> = list.service.into_iter().map(|service| service.name).collect();
    assert!(names.contains(NAME), "{names:?}");
    let MessageResponse::FileDescriptorResponse(files) = next().await else {
        unreachable!("no file")
    };
    assert!(!files.file_descriptor_proto.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_shutdown_the_port_is_closed_and_calls_have_ended() {
    let served = Served::start(&users(1_000_000, Unit::Day), Options::default()).await;
    let (address, engine) = (served.address, Arc::clone(&served.engine));
    let channel = channel(&served).await;
    let asking = tokio::spawn(async move {
        let mut answered = 0_u64;
        while let Ok(response) = ask(&channel, user("a")).await {
            assert_eq!(response.overall_code, OK);
            answered += 1;
        }
        answered
    });
    let counted = || {
        let plan = engine.plan();
        let series = plan.domains().get("shop").unwrap().statistics().series();
        let (_, counts) = series.iter().find(|(name, _)| name == "shop.user").unwrap().clone();
        counts.total_hits.get()
    };
    while counted() < 20 {
        tokio::task::yield_now().await;
    }
    served.stop().await;
    // Whatever was counted was answered: no call was cut off.
    assert_eq!(asking.await.unwrap(), counted());
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_client_that_says_nothing_is_cut_and_one_that_speaks_is_not() {
    let time = FrozenTime::new();
    let limits = GrpcLimits::default();
    let served = Served::limited(&users(9, Unit::Minute), Options::default(), limits).await;
    let channel = channel(&served).await;
    assert_eq!(ask(&channel, user("a")).await.unwrap().overall_code, OK);
    let mut silent = TcpStream::connect(served.address).await.unwrap();
    let mut rest = Vec::new();
    // Ends when the other side closes; what it said before does not matter.
    let closed = silent.read_to_end(&mut rest);
    let _ = time.until(limits.opening_max, "the connection to be closed", closed).await;
    assert_eq!(ask(&channel, user("a")).await.unwrap().overall_code, OK);
}

// The pipe holds less than the replies to a handful of pings.
#[tokio::test]
async fn a_client_that_does_not_read_is_cut() {
    let time = FrozenTime::new();
    let engine = Engine::new(&users(9, Unit::Minute), &mut NoRestore).unwrap();
    let service = grpc::Service::new(Arc::new(engine), Arc::default()).await;
    let limits = GrpcLimits::default();
    let (mut client, server) = tokio::io::duplex(64);
    let writing = tokio::spawn(async move {
        let _ = client.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await;
        let _ = client.write_all(b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0").await;
        for _ in 0..100 {
            let _ = client.write_all(b"\0\0\x08\x06\0\0\0\0\0\0\0\0\0\0\0\0\0").await;
        }
        // Stays open until the server closes its side.
        client
    });
    let served = grpc::serve(server, service, limits, Arc::default(), core::future::pending());
    let ended = time.until(limits.write_max, "the connection to be cut", served).await;
    assert_eq!(ended.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    drop(writing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_that_are_no_http_2_end_their_own_connection_only() {
    let served = Served::start(&users(9, Unit::Minute), Options::default()).await;
    let channel = channel(&served).await;
    for bytes in
        [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\nxxxx"]
    {
        let mut stream = TcpStream::connect(served.address).await.unwrap();
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        let mut rest = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut rest)).await.unwrap();
    }
    assert_eq!(ask(&channel, user("a")).await.unwrap().overall_code, OK);
}
