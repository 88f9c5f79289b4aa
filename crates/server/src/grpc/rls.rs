//! `ShouldRateLimit`, the only method of the rate limit service.

use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use hyper::body::Incoming;
use slidegate_gate::Caller;
use slidegate_tower::OverloadGuard;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::body::CallBody;
use super::codec::RlsCodec;
use super::message::{RateLimitRequest, RateLimitResponse};
use crate::access::{Access, AccessError, Scope};
use crate::domain::{AnswerError, Options, answer};
use crate::engine::Engine;
use crate::net::{BodyBudget, Connections};
use crate::overload::admit;

/// The name of the service.
pub const NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";
pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The default maximum size of a message, in bytes.
///
/// A message that is too large is an error, on which Envoy by default allows the request. Envoy
/// accepts 60 KiB of header fields from a client and may repeat a field in several descriptors.
pub const MESSAGE_MAX: usize = 1 << 20;

/// The rate limit service.
#[derive(Clone)]
pub(super) struct RateLimitService {
    pub(super) engine: Arc<Engine>,
    pub(super) options: Arc<Options>,
    pub(super) message_max: usize,
    pub(super) access: Access,
    /// Memory for messages that are not complete.
    pub(super) bodies: Arc<BodyBudget>,
    /// Counts panics.
    pub(super) connections: Arc<Connections>,
}

type RlsResult = Result<tonic::Response<RateLimitResponse>, Status>;

impl RateLimitService {
    pub(super) async fn call(self, request: Request<Incoming>) -> Response<Body> {
        let request = request.map(|body| CallBody::new(body, Arc::clone(&self.bodies)));
        let mut grpc = Grpc::new(RlsCodec).max_decoding_message_size(self.message_max);
        let (engine, start) = (Arc::clone(&self.engine), Instant::now());
        let mut response = grpc.unary(self, request).await;
        engine.plan().domains().statistics().calls.record(start.elapsed());
        // tonic reports a message that is too long as "out of range", a code that this service never uses.
        if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
            && Code::from_bytes(status.as_bytes()) == Code::OutOfRange
        {
            *status = HeaderValue::from(Code::ResourceExhausted as i32);
        }
        response
    }

    async fn should_rate_limit(self, request: tonic::Request<RateLimitRequest>) -> RlsResult {
        let (metadata, _, request) = request.into_parts();
        let caller = Caller::grpc(metadata.as_ref());
        let plan = self.engine.plan();
        let limit_request = request
            .limit_request()
            .inspect_err(|_| plan.domains().statistics().service_error.add(1));
        let limit_request = limit_request.map_err(|invalid| status(&invalid.into()))?;
        let scopes = [Some(Scope::Check), limit_request.gives_back().then_some(Scope::Change)];
        for scope in scopes.into_iter().flatten() {
            self.access.check_headers(scope, metadata.as_ref()).map_err(|refusal| {
                plan.domains().statistics().service_error.add(1);
                refused(refusal)
            })?;
        }
        let answered = answer(plan.domains(), &limit_request, &self.options, caller).await;
        let response = answered.map_err(|error| status(&error))?;
        Ok(tonic::Response::new(response.into()))
    }

    /// Answers a call when the guard admits it. Its message is not read before.
    pub(super) async fn call_guarded(
        self,
        guard: OverloadGuard,
        request: Request<Incoming>,
    ) -> Response<Body> {
        match admit(&guard).await {
            Ok(_pass) => self.call(request).await,
            Err(after) => shed(after).into_http(),
        }
    }
}

/// Returns the status of a call without a decision. On any but `OK`, Envoy's `failure_mode_deny` decides.
fn status(error: &AnswerError) -> Status {
    match error {
        AnswerError::Invalid(_) => Status::invalid_argument(error.to_string()),
        AnswerError::StoreFailed => Status::unavailable(error.to_string()),
    }
}

fn refused(refusal: AccessError) -> Status {
    let code = if refusal.needs_token() { Code::Unauthenticated } else { Code::PermissionDenied };
    Status::new(code, refusal.to_string())
}

/// Returns a status after which gRPC clients try another server, or this one after `after`.
fn shed(after: Duration) -> Status {
    let details = ErrorDetails::with_retry_info(Some(after));
    Status::with_error_details(Code::Unavailable, "the daemon is overloaded: retry later", details)
}

/// Turns a panic into an error of this call only.
async fn isolated<T>(
    connections: Arc<Connections>,
    mut call: Pin<Box<impl Future<Output = Result<T, Status>>>>,
) -> Result<T, Status> {
    let panicked = || Err(Status::internal("the call failed; others are not affected"));
    connections.catch_panic(call.as_mut()).await.unwrap_or_else(panicked)
}

impl UnaryService<RateLimitRequest> for RateLimitService {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = RlsResult> + Send>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        let call = Box::pin(self.clone().should_rate_limit(request));
        Box::pin(isolated(Arc::clone(&self.connections), call))
    }
}

#[cfg(test)]
mod tests;
