//! Envoy's rate limit service.

use prost::Message;
use tonic::client::Grpc;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request};
use tonic_prost::ProstCodec;

use super::{Failure, Verdict};

const SHOULD_RATE_LIMIT: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The status codes of a response.
const OK: i32 = 1;
const OVER_LIMIT: i32 = 2;

/// A request.
#[derive(Clone, PartialEq, Message)]
struct RateLimitRequest {
    #[prost(string, tag = "1")]
    domain: String,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

/// One path through the tree of limits.
#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

/// One step of the path.
#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(string, tag = "2")]
    value: String,
}

/// The part of a response that decides.
#[derive(Clone, Copy, PartialEq, Message)]
struct RateLimitResponse {
    #[prost(int32, tag = "1")]
    overall_code: i32,
}

#[derive(Debug)]
pub(crate) struct GrpcConnection {
    address: String,
    domain: String,
    entry: String,
    channel: Option<Grpc<Channel>>,
}

impl GrpcConnection {
    pub(super) fn new(address: &str, domain: &str, entry: &str) -> Self {
        Self {
            address: address.to_owned(),
            domain: domain.to_owned(),
            entry: entry.to_owned(),
            channel: None,
        }
    }

    pub(super) async fn connect(&mut self) -> Result<(), Failure> {
        if self.channel.is_none() {
            let endpoint = Endpoint::from_shared(format!("http://{}", self.address));
            let endpoint = endpoint.map_err(|error| Failure::connect(&error))?;
            // The channel connects again by itself.
            let channel = endpoint.connect().await.map_err(|error| Failure::connect(&error))?;
            self.channel = Some(Grpc::new(channel));
        }
        Ok(())
    }

    pub(super) async fn check(&mut self, key: &str) -> Result<Verdict, Failure> {
        self.connect().await?;
        let Some(grpc) = &mut self.channel else {
            return Err(Failure::new("connect", "there is no connection"));
        };
        let ready = grpc.ready().await;
        ready.map_err(|error| Failure::connect(&error))?;
        let entry = Entry { key: self.entry.clone(), value: key.to_owned() };
        let request = RateLimitRequest {
            domain: self.domain.clone(),
            descriptors: vec![Descriptor { entries: vec![entry] }],
        };
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let path = PathAndQuery::from_static(SHOULD_RATE_LIMIT);
        let answered = grpc.unary(Request::new(request), path, codec).await;
        let response = answered.map_err(|status| {
            let kind = match status.code() {
                Code::Unavailable => "connect".to_owned(),
                code => format!("gRPC {code:?}"),
            };
            Failure::new(kind, status.message())
        })?;
        match response.into_inner().overall_code {
            OK => Ok(Verdict::Allowed),
            OVER_LIMIT => Ok(Verdict::Denied),
            code => Err(Failure::new("no decision", format!("the response has the code {code}"))),
        }
    }
}
