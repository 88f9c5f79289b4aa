//! Calls of gRPC: messages, as far as they are needed, and who sends them.

use core::net::Ipv4Addr;

use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic_prost::ProstCodec;

use super::subject::ServerKind;
use super::workload::LIMIT;

/// What Envoy asks.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// What Envoy is answered.
#[derive(Clone, PartialEq, Message)]
pub(super) struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    pub(super) overall_code: i32,
    #[prost(message, repeated, tag = "2")]
    pub(super) statuses: Vec<Status>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Status {
    #[prost(int32, tag = "1")]
    pub(super) code: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) limit: Option<Limit>,
    #[prost(uint32, tag = "3")]
    pub(super) remaining: u32,
    #[prost(message, optional, tag = "4")]
    pub(super) until_reset: Option<Time>,
}

#[derive(Clone, PartialEq, Eq, Message)]
pub(super) struct Limit {
    #[prost(uint32, tag = "1")]
    pub(super) requests: u32,
    #[prost(int32, tag = "2")]
    pub(super) unit: i32,
    #[prost(string, tag = "3")]
    pub(super) name: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Time {
    #[prost(int64, tag = "1")]
    pub(super) seconds: i64,
    #[prost(int32, tag = "2")]
    pub(super) nanos: i32,
}

/// What throttlecrab-server is asked.
#[derive(Clone, PartialEq, Eq, Message)]
struct ThrottleRequest {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(int32, tag = "2")]
    burst: i32,
    #[prost(int32, tag = "3")]
    count: i32,
    #[prost(int32, tag = "4")]
    period: i32,
    #[prost(int32, tag = "5")]
    quantity: i32,
}

/// What it answers.
#[derive(Clone, Copy, PartialEq, Eq, Message)]
struct ThrottleResponse {
    #[prost(bool, tag = "1")]
    allowed: bool,
}

/// HTTP/2 connections to one server.
#[derive(Debug)]
pub(super) struct Channels(Vec<Channel>);

/// Calls that follow each other.
#[derive(Debug)]
pub(super) struct Call {
    which: ServerKind,
    client: Grpc<Channel>,
}

const RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
const THROTTLE: &str = "/throttlecrab.RateLimiter/Throttle";

impl Channels {
    pub(super) async fn open(port: u16, connections: usize) -> Result<Self, String> {
        let failed = |error: tonic::transport::Error| format!("port {port}: {error:?}");
        let mut channels = Vec::with_capacity(connections);
        for _ in 0..connections {
            let address = format!("http://{}:{port}", Ipv4Addr::LOCALHOST);
            let endpoint = Endpoint::from_shared(address).map_err(failed)?;
            channels.push(endpoint.connect().await.map_err(failed)?);
        }
        Ok(Self(channels))
    }

    pub(super) fn call(&self, which: ServerKind, number: usize) -> Call {
        let channel = self.0[number % self.0.len()].clone();
        Call { which, client: Grpc::new(channel) }
    }
}

impl Call {
    pub(super) async fn ask(&mut self, key: u32) -> Result<(), String> {
        let name = format!("user:{key:07}");
        self.client.ready().await.map_err(|error| error.to_string())?;
        if self.which == ServerKind::Throttlecrab {
            let limit = i32::try_from(LIMIT).unwrap_or(i32::MAX);
            let (burst, count, period) = (limit, limit, 60);
            let request = ThrottleRequest { key: name, burst, count, period, quantity: 1 };
            let codec = ProstCodec::<ThrottleRequest, ThrottleResponse>::default();
            let path = PathAndQuery::from_static(THROTTLE);
            let answer = self.client.unary(tonic::Request::new(request), path, codec).await;
            return answer.map(|_| ()).map_err(|status| status.to_string());
        }
        let entries = vec![Entry { key: "user".to_owned(), value: name }];
        let descriptors = vec![Descriptor { entries }];
        let request = RateLimitRequest { domain: "bench".to_owned(), descriptors };
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let path = PathAndQuery::from_static(RATE_LIMIT);
        let answer = self.client.unary(tonic::Request::new(request), path, codec).await;
        let answer = answer.map_err(|status| status.to_string())?.into_inner();
        // 1 passes, 2 does not; anything else is no answer.
        match answer.overall_code {
            1 | 2 => Ok(()),
            code => Err(format!("an answer of code {code}")),
        }
    }
}
