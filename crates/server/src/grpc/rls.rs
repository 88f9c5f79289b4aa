//! The one method of the rate limit service.

use core::fmt;
use core::pin::Pin;
use std::sync::Arc;

use http::{HeaderValue, Request, Response};
use http_body::Body as HttpBody;
use tonic::body::Body;
use tonic::codegen::StdError;
use tonic::server::{Grpc, UnaryService};
use tonic::{Code, Status};
use tonic_prost::ProstCodec;

use super::guard::Guarded;
use super::message::{RateLimitRequest, RateLimitResponse};
use crate::domain::{Options, answer};
use crate::engine::{Caller, Engine};

/// What the service is called.
pub const NAME: &str = "envoy.service.ratelimit.v3.RateLimitService";
pub(super) const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/// The most bytes of a message, unless told otherwise.
pub const MESSAGE_MAX: usize = 64 << 10;

/// The rate limit service.
#[derive(Clone)]
pub(super) struct Rls {
    pub(super) engine: Arc<Engine>,
    pub(super) options: Arc<Options>,
    pub(super) message_max: usize,
}

type Answer = Result<tonic::Response<RateLimitResponse>, Status>;

impl Rls {
    pub(super) async fn call<B>(self, request: Request<B>) -> Response<Body>
    where
        B: HttpBody + Send + 'static,
        B::Error: Into<StdError> + Send,
    {
        let mut grpc = Grpc::new(ProstCodec::default()).max_decoding_message_size(self.message_max);
        let mut response = grpc.unary(self, request).await;
        // The library says "out of range" of messages that are too long, and we never do.
        if let Some(status) = response.headers_mut().get_mut(Status::GRPC_STATUS)
            && Code::from_bytes(status.as_bytes()) == Code::OutOfRange
        {
            *status = HeaderValue::from(Code::ResourceExhausted as i32);
        }
        response
    }

    async fn should_rate_limit(self, request: tonic::Request<RateLimitRequest>) -> Answer {
        let (metadata, _, request) = request.into_parts();
        let caller = Caller::grpc(metadata.as_ref());
        let plan = self.engine.plan();
        let question = request.question().inspect_err(|_| plan.statistics().service_error.add());
        let invalid = |error: crate::domain::Invalid| Status::invalid_argument(error.to_string());
        let question = question.map_err(invalid)?;
        let response = answer(&plan, &question, &self.options, caller).await.map_err(invalid)?;
        Ok(tonic::Response::new(response.into()))
    }
}

impl UnaryService<RateLimitRequest> for Rls {
    type Response = RateLimitResponse;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn call(&mut self, request: tonic::Request<RateLimitRequest>) -> Self::Future {
        Box::pin(Guarded::new(self.clone().should_rate_limit(request)))
    }
}

impl fmt::Debug for Rls {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Rls").field("options", &self.options).finish_non_exhaustive()
    }
}
