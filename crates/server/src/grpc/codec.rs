//! The codec of the rate limit service.
//!
//! Envoy puts header values into descriptors without checking that they are UTF-8, as protocol
//! buffers require. An error would lift the limit of a client that sends such a value, so invalid
//! bytes are replaced by U+FFFD.

use prost::Message;
use prost::bytes::Buf;
use tonic::Status;
use tonic::codec::{Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::message::{
    DescriptorEntry, RateLimitDescriptor, RateLimitOverride, RateLimitRequest, RateLimitResponse,
};

/// Decodes requests and encodes responses.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RlsCodec;

/// Decodes requests.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RlsDecoder;

impl Codec for RlsCodec {
    type Encode = RateLimitResponse;
    type Decode = RateLimitRequest;
    type Encoder = ProstEncoder<RateLimitResponse>;
    type Decoder = RlsDecoder;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<RateLimitResponse, RateLimitRequest>::default().encoder()
    }

    fn decoder(&mut self) -> Self::Decoder {
        RlsDecoder
    }
}

impl Decoder for RlsDecoder {
    type Item = RateLimitRequest;
    type Error = Status;

    fn decode(&mut self, source: &mut DecodeBuf<'_>) -> Result<Option<Self::Item>, Self::Error> {
        let bytes = source.copy_to_bytes(source.remaining());
        let request = RateLimitRequest::decode(bytes.clone()).or_else(|_| {
            RawRequest::decode(bytes).map(RateLimitRequest::from).map_err(|error| {
                Status::invalid_argument(format!("invalid RateLimitRequest: {error}"))
            })
        });
        request.map(Some)
    }
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
