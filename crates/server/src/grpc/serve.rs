//! One gRPC connection.

use core::convert::Infallible;
use core::pin::Pin;
use core::task::{Context, Poll};
use core::time::Duration;
use std::io;
use std::sync::Arc;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tonic::body::Body;

use super::Service;
use super::batch::BatchExecutor;
use super::service::ResponseFuture;
use crate::net::{
    ActiveRequest, Activity, CONNECTION_WINDOW, ConnectionEnd, ConnectionTimeouts, Drive,
    ObservedStream, STREAM_WINDOW, drive,
};

/// Bounds on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcLimits {
    /// The time for a client to send the HTTP/2 preface and to acknowledge the settings.
    pub opening_max: Duration,
    /// The time for a call, including its message.
    pub call_max: Duration,
    /// The time for a client to read its replies.
    pub write_max: Duration,
    /// The time after which a connection without a call is closed.
    pub idle_max: Duration,
    /// The maximum number of concurrent calls.
    pub streams_max: u32,
    /// The time after which a silent client is pinged.
    pub quiet_max: Duration,
    /// The time for the reply to a ping, after which the connection is closed.
    pub ping_max: Duration,
    /// The time for replies that are not sent yet when the connection is closed.
    pub drain_max: Duration,
}

/// The maximum number of streams that a client has reset before they were accepted.
const RESETS_MAX: usize = 64;
/// The maximum size of header fields, in bytes.
const HEADERS_MAX: u32 = 16 << 10;

impl Default for GrpcLimits {
    fn default() -> Self {
        Self {
            opening_max: Duration::from_secs(10),
            call_max: Duration::from_secs(30),
            write_max: Duration::from_secs(10),
            idle_max: Duration::from_secs(300),
            streams_max: 128,
            quiet_max: Duration::from_secs(30),
            ping_max: Duration::from_secs(20),
            drain_max: Duration::from_secs(10),
        }
    }
}

/// Serves one connection, plain or TLS that negotiated `h2`, until the client closes it or `ended`
/// completes. What the client does is recorded in `activity`, which is new. Calls in flight may then finish.
///
/// # Errors
///
/// Returns [`TimedOut`](io::ErrorKind::TimedOut) if the client was too slow or flooded the server.
pub async fn serve<S>(
    stream: S,
    service: Service,
    limits: GrpcLimits,
    activity: Arc<Activity>,
    ended: impl Future<Output = ()>,
) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    activity.expect_opening();
    let stream = TokioIo::new(ObservedStream::new(stream, Arc::clone(&activity)));
    let executor = BatchExecutor::default();
    let service = ObservedService { service, activity: Arc::clone(&activity) };
    let connection = builder(limits, executor.clone()).serve_connection(stream, service);
    let connection = BatchConnection { connection: Box::pin(connection), executor };
    match drive(connection, &activity, &limits.timeouts(), ended, || true).await {
        ConnectionEnd::Closed => Ok(()),
        ConnectionEnd::Cut => Err(io::ErrorKind::TimedOut.into()),
    }
}

impl GrpcLimits {
    fn timeouts(&self) -> ConnectionTimeouts {
        ConnectionTimeouts {
            header: self.opening_max,
            request: self.call_max,
            write: self.write_max,
            idle: self.idle_max,
            drain: self.drain_max,
        }
    }
}

fn builder(limits: GrpcLimits, executor: BatchExecutor) -> http2::Builder<BatchExecutor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(limits.quiet_max)
        .keep_alive_timeout(limits.ping_max);
    builder
}

/// A connection whose calls run in batches.
struct BatchConnection<C> {
    connection: Pin<Box<C>>,
    executor: BatchExecutor,
}

impl<C: Drive + Future> Drive for BatchConnection<C> {
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let Self { connection, executor } = &mut *self;
        executor.poll(connection.as_mut(), cx).map(|_| ())
    }

    fn shut_down(mut self: Pin<&mut Self>) {
        self.connection.as_mut().shut_down();
    }
}

/// The service of one connection, which records its calls.
struct ObservedService {
    service: Service,
    activity: Arc<Activity>,
}

impl hyper::service::Service<Request<Incoming>> for ObservedService {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = ObservedCall;

    fn call(&self, request: Request<Incoming>) -> ObservedCall {
        let active = ActiveRequest::begin(Arc::clone(&self.activity));
        let response = self.service.respond(request, Arc::clone(&self.activity));
        ObservedCall { response, _active: active }
    }
}

/// A call in flight.
struct ObservedCall {
    response: ResponseFuture,
    _active: ActiveRequest<Arc<Activity>>,
}

impl Future for ObservedCall {
    type Output = <ResponseFuture as Future>::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.response.as_mut().poll(cx)
    }
}
