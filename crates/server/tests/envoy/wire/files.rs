//! The `.proto` files, the messages written by hand, and what reflection shows: all the same.

use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::{DescriptorPool, DynamicMessage, SerializeOptions};
use prost_types::{Duration, Struct, Value, value::Kind};
use protox::Compiler;
use protox::prost::Message;
use serde_json::json;
use slidegate_server::grpc::message::{
    DescriptorEntry, DescriptorStatus, HeaderValue, RateLimit, RateLimitDescriptor,
    RateLimitOverride, RateLimitRequest, RateLimitResponse,
};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")
}

fn compiled() -> Compiler {
    let mut compiler = Compiler::new([folder()]).unwrap();
    compiler.include_imports(true);
    compiler.open_file("envoy/service/ratelimit/v3/rls.proto").unwrap();
    compiler
}

/// With `SLIDEGATE_WRITE_FILES=1` it writes what it otherwise compares.
#[test]
fn what_reflection_shows_is_up_to_date() {
    let (path, fresh) = (folder().join("files.bin"), compiled().encode_file_descriptor_set());
    if std::env::var_os("SLIDEGATE_WRITE_FILES").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let message = "run this test with SLIDEGATE_WRITE_FILES=1, and commit proto/files.bin";
    assert!(fs::read(&path).unwrap() == fresh, "{message}");
}

/// Reads bytes by the `.proto` files; all of them must be known there, and come back the same.
fn read(pool: &DescriptorPool, name: &str, bytes: &[u8]) -> serde_json::Value {
    let descriptor = pool.get_message_by_name(name).unwrap();
    let message = DynamicMessage::decode(descriptor, bytes).unwrap();
    assert_eq!(message.unknown_fields().count(), 0);
    assert_eq!(message.encode_to_vec().len(), bytes.len());
    let options = SerializeOptions::new();
    message.serialize_with_options(serde_json::value::Serializer, &options).unwrap()
}

#[test]
fn a_request_by_hand_is_a_request_of_the_files() {
    let descriptor = RateLimitDescriptor {
        entries: vec![DescriptorEntry { key: "k".to_owned(), value: "v".to_owned() }],
        limit: Some(RateLimitOverride { requests_per_unit: 7, unit: 3 }),
        hits_addend: Some(300),
        is_negative_hits: true,
    };
    let request =
        RateLimitRequest { domain: "d".to_owned(), descriptors: vec![descriptor], hits_addend: 9 };
    let bytes = request.encode_to_vec();
    let name = "envoy.service.ratelimit.v3.RateLimitRequest";
    assert_eq!(
        read(&compiled().descriptor_pool(), name, &bytes),
        json!({
            "domain": "d",
            "descriptors": [{
                "entries": [{"key": "k", "value": "v"}],
                "limit": {"requestsPerUnit": 7, "unit": "HOUR"},
                "hitsAddend": "300",
                "isNegativeHits": true,
            }],
            "hitsAddend": 9,
        })
    );
    assert_eq!(RateLimitRequest::decode(&*bytes).unwrap(), request);
}

#[test]
fn a_response_by_hand_is_a_response_of_the_files() {
    let header = |key: &str| HeaderValue {
        key: key.to_owned(),
        value: "v".to_owned(),
        raw_value: b"raw".to_vec(),
    };
    let status = DescriptorStatus {
        code: 2,
        current_limit: Some(RateLimit { requests_per_unit: 5, unit: 7, name: "n".to_owned() }),
        limit_remaining: 4,
        duration_until_reset: Some(Duration { seconds: 3, nanos: 500_000_000 }),
    };
    let number = Value { kind: Some(Kind::NumberValue(1.5)) };
    let response = RateLimitResponse {
        overall_code: 1,
        statuses: vec![status],
        response_headers_to_add: vec![header("a")],
        request_headers_to_add: vec![header("b")],
        raw_body: b"body".to_vec(),
        dynamic_metadata: Some(Struct { fields: [("x".to_owned(), number)].into() }),
    };
    let bytes = response.encode_to_vec();
    let name = "envoy.service.ratelimit.v3.RateLimitResponse";
    assert_eq!(
        read(&compiled().descriptor_pool(), name, &bytes),
        json!({
            "overallCode": "OK",
            "statuses": [{
                "code": "OVER_LIMIT",
                "currentLimit": {"name": "n", "requestsPerUnit": 5, "unit": "WEEK"},
                "limitRemaining": 4,
                "durationUntilReset": "3.500s",
            }],
            "responseHeadersToAdd": [{"key": "a", "value": "v", "rawValue": "cmF3"}],
            "requestHeadersToAdd": [{"key": "b", "value": "v", "rawValue": "cmF3"}],
            "rawBody": "Ym9keQ==",
            "dynamicMetadata": {"x": 1.5},
        })
    );
}
