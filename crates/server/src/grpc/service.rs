//! The gRPC services: rate limits, health, reflection.

use core::convert::Infallible;
use core::fmt;
use core::pin::Pin;
use core::task::{Context, Poll};
use std::sync::Arc;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body as HttpBody, Bytes, Frame, Incoming, SizeHint};
use slidegate_tower::OverloadGuard;
use tonic::Status;
use tonic::body::Body;
use tonic_health::ServingStatus;
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tonic_reflection::server::Builder;
use tower_service::Service as TowerService;

use super::codec::PREFIX;
use super::rls::{MESSAGE_MAX, MESSAGE_TIMEOUT, NAME, PATH, RateLimitService, read_message};
use crate::access::Access;
use crate::domain::Options;
use crate::engine::Engine;
use crate::net::{Activity, BODIES_MAX, BodyBudget, BodyLimits, BodyShare, Connections};

/// All gRPC services. Cheap to clone.
#[derive(Clone)]
pub struct Service {
    rls: RateLimitService,
    health: HealthServer<HealthService>,
    reporter: HealthReporter,
    reflection: Option<Arc<Reflection>>,
    guard: Option<OverloadGuard>,
}

/// Sets the status of the health service.
#[derive(Debug, Clone)]
pub struct Health(HealthReporter);

pub(super) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

/// Both versions of the reflection service, whose types cannot be named.
type Reflection = [Box<dyn Fn(Request<Body>) -> ResponseFuture + Send + Sync>; 2];

/// The files of the reflection service, compiled from `proto/` by the test `grpc`.
const FILES: &[u8] = include_bytes!("../../proto/files.bin");

/// The name under which the reference service reports its health.
const REFERENCE_NAME: &str = "ratelimit";

impl Service {
    /// Creates the rate limit service with reflection and health, which reports every name as
    /// serving.
    pub async fn new(engine: Arc<Engine>, options: Arc<Options>) -> Self {
        let reporter = HealthReporter::new();
        Health(reporter.clone()).set(true).await;
        let health = HealthServer::new(HealthService::from_health_reporter(reporter.clone()));
        let rls = RateLimitService {
            engine,
            options,
            message_max: MESSAGE_MAX,
            access: Access::open(),
            bodies: BodyBudget::new(BODIES_MAX),
            connections: Arc::default(),
        };
        Self { rls, health, reporter, reflection: reflection(), guard: None }
    }

    /// Sets the maximum size of a message, in bytes.
    #[must_use]
    pub fn message_max(mut self, bytes: usize) -> Self {
        self.rls.message_max = bytes;
        self
    }

    /// Sets the memory for messages that are not complete, which other listeners may share.
    #[must_use]
    pub fn bodies(mut self, budget: Arc<BodyBudget>) -> Self {
        self.rls.bodies = budget;
        self
    }

    /// Sets where panics are counted.
    #[must_use]
    pub fn connections(mut self, connections: Arc<Connections>) -> Self {
        self.rls.connections = connections;
        self
    }

    /// Sets what clients may do. Health and reflection are for all of them.
    #[must_use]
    pub fn access(mut self, access: Access) -> Self {
        self.rls.access = access;
        self
    }

    /// Sets an overload guard. Calls that it sheds are `UNAVAILABLE`, with a `RetryInfo`. Health and
    /// reflection are not guarded: a busy server is not dead.
    #[must_use]
    pub fn guard(mut self, guard: Option<OverloadGuard>) -> Self {
        self.guard = guard;
        self
    }

    /// Returns a handle that sets the health status.
    pub fn health(&self) -> Health {
        Health(self.reporter.clone())
    }

    pub(super) fn respond(
        &self,
        request: Request<Incoming>,
        activity: Arc<Activity>,
    ) -> ResponseFuture {
        let path = request.uri().path();
        if path == PATH {
            let rls = self.rls.clone();
            return match self.guard.clone() {
                None => Box::pin(async move { Ok(rls.call(request, activity).await) }),
                Some(guard) => {
                    Box::pin(async move { Ok(rls.call_guarded(guard, request, activity).await) })
                }
            };
        }
        let is_health = path.starts_with("/grpc.health.v1.Health/");
        let reflection =
            self.reflection.as_ref().filter(|_| path.starts_with("/grpc.reflection.v1"));
        if !is_health && reflection.is_none() {
            let status = Status::unimplemented("unknown method");
            return Box::pin(async move { Ok(status.into_http()) });
        }
        // What the services of tonic take for a call, and for as long as they stream their reply.
        let mut share = BodyShare::new(&self.rls.bodies, &activity);
        if let Err(used_up) = share.hold(OTHER_CALL) {
            let status = Status::unavailable(used_up.to_string());
            return Box::pin(async move { Ok(status.into_http()) });
        }
        let held = move |body| Body::new(HeldBody { body, _share: share });
        if let Some(reflection) = reflection.map(Arc::clone) {
            let [v1, v1alpha] = &*reflection;
            let version = if path.starts_with("/grpc.reflection.v1.") { v1 } else { v1alpha };
            let called = version(request.map(Body::new));
            return Box::pin(async move { Ok(called.await?.map(held)) });
        }
        let (mut health, bodies) = (self.health.clone(), Arc::clone(&self.rls.bodies));
        Box::pin(async move {
            let (head, mut body) = request.into_parts();
            let limits = BodyLimits {
                max: PREFIX + OTHER_MESSAGE_MAX,
                timeout: MESSAGE_TIMEOUT,
                budget: Some(&bodies),
                activity: &activity,
            };
            match read_message(&mut body, head.headers.len(), limits).await {
                Ok(message) => {
                    let request = Request::from_parts(head, Full::new(message));
                    Ok(health.call(request).await?.map(held))
                }
                Err(status) => Ok(status.into_http()),
            }
        })
    }
}

/// The maximum size of a message of the health and reflection services, in bytes.
const OTHER_MESSAGE_MAX: usize = 4 << 10;

/// What a call of these services takes, with tonic's buffer for messages.
const OTHER_CALL: usize = 16 << 10;

/// A body that keeps its share of the memory until it ends.
struct HeldBody {
    body: Body,
    _share: BodyShare,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Health {
    /// Sets the status that clients get or watch.
    pub async fn set(&self, is_healthy: bool) {
        let status = if is_healthy { ServingStatus::Serving } else { ServingStatus::NotServing };
        for name in ["", NAME, REFERENCE_NAME] {
            self.0.set_service_status(name, status).await;
        }
    }
}

fn reflection() -> Option<Arc<Reflection>> {
    let files = || Builder::configure().register_encoded_file_descriptor_set(FILES);
    // The files are constant, and a test builds both services from them.
    let (v1, v1alpha) = (files().build_v1().ok()?, files().build_v1alpha().ok()?);
    let v1 = v1.max_decoding_message_size(OTHER_MESSAGE_MAX);
    let v1alpha = v1alpha.max_decoding_message_size(OTHER_MESSAGE_MAX);
    Some(Arc::new([
        Box::new(move |request| v1.clone().call(request)),
        Box::new(move |request| v1alpha.clone().call(request)),
    ]))
}

impl fmt::Debug for Service {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Service").finish_non_exhaustive()
    }
}
