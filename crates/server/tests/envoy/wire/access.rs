//! What callers of the gRPC service may do.

use std::sync::Arc;

use arc_swap::ArcSwap;
use slidegate_server::access::{Access, AccessRules, Exposure, Scopes, SharedRules, Token};
use slidegate_server::grpc::message::RateLimitRequest;
use slidegate_server::spec::Unit;
use tonic::transport::Channel;
use tonic::{Code, Request};

use super::grpc::{channel, send, user};
use super::served::{Served, users};

const APP: &str = "token-of-the-app-01";
const OPS: &str = "token-of-the-ops-03";

fn gives_back(mut request: RateLimitRequest) -> RateLimitRequest {
    request.descriptors[0].is_negative_hits = true;
    request
}

async fn code(channel: &Channel, request: RateLimitRequest, token: Option<&str>) -> Code {
    let mut request = Request::new(request);
    if let Some(token) = token {
        let value = format!("Bearer {token}").parse().unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    send(channel, "ShouldRateLimit", request)
        .await
        .map_or_else(|status| status.code(), |_| Code::Ok)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beyond_loopback_envoy_needs_no_token_unless_it_gives_back_units() {
    let access = Access::new(SharedRules::default(), Exposure::Network);
    let served = Served::accessed(&users(9, Unit::Hour), access).await;
    let channel = channel(&served).await;
    assert_eq!(code(&channel, user("a"), None).await, Code::Ok);
    assert_eq!(code(&channel, user("a"), Some(APP)).await, Code::Ok);
    assert_eq!(code(&channel, gives_back(user("a")), None).await, Code::PermissionDenied);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tokens_in_metadata_allow_their_scopes() {
    let token = |text: &str| Token::new(text.as_bytes()).unwrap();
    let tokens = vec![(token(APP), Scopes::CHECK), (token(OPS), Scopes::ALL)];
    let rules = AccessRules { tokens, anonymous: Some(Scopes::default()) };
    let access = Access::new(Arc::new(ArcSwap::from_pointee(rules)), Exposure::Network);
    let served = Served::accessed(&users(9, Unit::Hour), access).await;
    let channel = channel(&served).await;
    assert_eq!(code(&channel, user("a"), None).await, Code::Unauthenticated);
    assert_eq!(code(&channel, user("a"), Some("token-of-no-client")).await, Code::Unauthenticated);
    assert_eq!(code(&channel, user("a"), Some(APP)).await, Code::Ok);
    assert_eq!(code(&channel, gives_back(user("a")), Some(APP)).await, Code::PermissionDenied);
    assert_eq!(code(&channel, gives_back(user("a")), Some(OPS)).await, Code::Ok);
}
