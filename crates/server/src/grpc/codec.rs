//! The messages of the rate limit service on the wire.
//!
//! They are read and written here, because tonic reserves memory for the length that a client announces.
//!
//! Envoy puts header values into descriptors without checking that they are UTF-8, as protocol
//! buffers require. An error would lift the limit of a client that sends such a value, so invalid
//! bytes are replaced by U+FFFD.

use core::convert::Infallible;
use core::future::ready;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::{BodyExt, Full};
use prost::Message;
use prost::bytes::{Buf, BufMut, Bytes, BytesMut};
use tonic::Status;
use tonic::body::Body;

use super::message::{
    DescriptorEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};

/// The bytes before a message: whether it is compressed, and its length.
pub(super) const PREFIX: usize = 5;

/// Decodes the body of a call, which is one message.
pub(super) fn decode(mut body: Bytes) -> Result<RateLimitRequest, Status> {
    if body.len() < PREFIX {
        return Err(Status::invalid_argument("the call has no message: send one"));
    }
    if body.get_u8() != 0 {
        return Err(Status::unimplemented("compressed messages are not supported: send identity"));
    }
    let length = body.get_u32();
    if u64::from(length) != body.len() as u64 {
        let found = body.len();
        return Err(Status::invalid_argument(format!(
            "the message has {length} bytes by its prefix, and {found} by its end: send one whole message"
        )));
    }
    RateLimitRequest::decode(body.clone()).or_else(|_| {
        RawRequest::decode(body)
            .map(RateLimitRequest::from)
            .map_err(|error| Status::invalid_argument(format!("invalid RateLimitRequest: {error}")))
    })
}

/// Encodes a response.
pub(super) fn encode(message: &RateLimitResponse) -> Response<Body> {
    let length = message.encoded_len();
    let mut bytes = BytesMut::with_capacity(PREFIX + length);
    bytes.put_u8(0);
    // A response is far smaller than 4 GiB.
    bytes.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    message.encode_raw(&mut bytes);
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(Status::GRPC_STATUS, HeaderValue::from_static("0"));
    let body = Full::new(bytes.freeze()).with_trailers(ready(Some(Ok::<_, Infallible>(trailers))));
    let mut response = Response::new(Body::new(body));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A [`RateLimitRequest`] whose texts may be any bytes.
#[derive(Clone, PartialEq, Message)]
struct RawRequest {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<RawDescriptor>,
    #[prost(uint32, tag = "3")]
    hits_addend: u32,
}

#[derive(Clone, PartialEq, Message)]
struct RawDescriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<RawEntry>,
    #[prost(message, optional, tag = "2")]
    limit: Option<RateLimitOverride>,
    #[prost(message, optional, tag = "3")]
    hits_addend: Option<u64>,
    #[prost(bool, tag = "4")]
    is_negative_hits: bool,
}

#[derive(Clone, PartialEq, Eq, Message)]
struct RawEntry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

impl From<RawRequest> for RateLimitRequest {
    fn from(raw: RawRequest) -> Self {
        let RawRequest { domain, descriptors, hits_addend } = raw;
        let descriptors = descriptors.into_iter().map(RateLimitDescriptor::from).collect();
        Self { domain: text(&domain), descriptors, hits_addend }
    }
}

impl From<RawDescriptor> for RateLimitDescriptor {
    fn from(raw: RawDescriptor) -> Self {
        let RawDescriptor { entries, limit, hits_addend, is_negative_hits } = raw;
        let entry = |RawEntry { key, value }: RawEntry| DescriptorEntry {
            key: text(&key),
            value: text(&value),
        };
        let entries = entries.into_iter().map(entry).collect();
        Self { entries, limit, hits_addend, is_negative_hits }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
