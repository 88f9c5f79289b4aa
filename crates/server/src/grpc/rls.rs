//! `ShouldRateLimit`, the only method of the rate limit service.

use core::pin::{Pin, pin};
use core::time::Duration;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use hyper::body::{Bytes, Incoming};
use slidegate_gate::Caller;
use slidegate_tower::OverloadGuard;
use tokio::time::Instant;
use tonic::body::Body;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use super::codec::{PREFIX, decode, encode};
use super::message::{RateLimitRequest, RateLimitResponse};
use crate::access::{Access, AccessError, Scope};
use crate::domain::{AnswerError, Options, answer};
use crate::engine::Engine;
use crate::net::{Activity, BodyBudget, BodyError, BodyLimits, Connections, read_body};
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

type RlsResult = Result<RateLimitResponse, Status>;

/// The time for a message, from the start of its call.
pub(super) const MESSAGE_TIMEOUT: Duration = Duration::from_secs(30);

impl RateLimitService {
    pub(super) async fn call(
        self,
        request: Request<Incoming>,
        activity: Arc<Activity>,
    ) -> Response<Body> {
        let (engine, start) = (Arc::clone(&self.engine), Instant::now());
        let called = self.reply(request, activity).await;
        engine.plan().domains().statistics().calls.record(start.elapsed());
        called.map_or_else(Status::into_http, |response| encode(&response))
    }

    async fn reply(self, request: Request<Incoming>, activity: Arc<Activity>) -> RlsResult {
        let (head, mut body) = request.into_parts();
        let limits = BodyLimits {
            max: PREFIX + self.message_max,
            timeout: MESSAGE_TIMEOUT,
            budget: Some(&self.bodies),
            activity: &activity,
        };
        let body = read_message(&mut body, head.headers.len(), limits).await?;
        let request = decode(body)?;
        let connections = Arc::clone(&self.connections);
        isolated(connections, pin!(self.should_rate_limit(&head.headers, request))).await
    }

    async fn should_rate_limit(
        &self,
        metadata: &HeaderMap,
        request: RateLimitRequest,
    ) -> RlsResult {
        let caller = Caller::grpc(metadata);
        let plan = self.engine.plan();
        let limit_request = request
            .limit_request()
            .inspect_err(|_| plan.domains().statistics().service_error.add(1));
        let limit_request = limit_request.map_err(|invalid| status(&invalid.into()))?;
        let scopes = [Some(Scope::Check), limit_request.gives_back().then_some(Scope::Change)];
        for scope in scopes.into_iter().flatten() {
            self.access.check_headers(scope, metadata).map_err(|refusal| {
                plan.domains().statistics().service_error.add(1);
                refused(refusal)
            })?;
        }
        let answered = answer(plan.domains(), &limit_request, &self.options, caller).await;
        Ok(answered.map_err(|error| status(&error))?.into())
    }

    /// Answers a call when the guard admits it. Its message is not read before.
    pub(super) async fn call_guarded(
        self,
        guard: OverloadGuard,
        request: Request<Incoming>,
        activity: Arc<Activity>,
    ) -> Response<Body> {
        match admit(&guard).await {
            Ok(_pass) => self.call(request, activity).await,
            Err(after) => shed(after).into_http(),
        }
    }
}

/// Reads the message of a call, with its prefix.
pub(super) async fn read_message(
    body: &mut Incoming,
    fields: usize,
    limits: BodyLimits<'_>,
) -> Result<Bytes, Status> {
    let max = limits.max - PREFIX;
    read_body(body, fields, limits).await.map_err(|error| match error {
        BodyError::TooLarge => Status::resource_exhausted(format!(
            "the message has more than {max} bytes: send fewer descriptors, or raise \
             `limits.message_max_kb`"
        )),
        BodyError::UsedUp(used_up) => Status::unavailable(used_up.to_string()),
        BodyError::Slow => Status::deadline_exceeded(format!(
            "the message was not complete after {MESSAGE_TIMEOUT:?}"
        )),
        BodyError::Broken => Status::cancelled("the message is incomplete"),
    })
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
    call: Pin<&mut impl Future<Output = Result<T, Status>>>,
) -> Result<T, Status> {
    let panicked = || Err(Status::internal("the call failed; others are not affected"));
    connections.catch_panic(call).await.unwrap_or_else(panicked)
}

#[cfg(test)]
mod tests;
