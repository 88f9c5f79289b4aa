//! One gRPC connection.

use core::future::poll_fn;
use core::pin::pin;
use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::Service;
use super::batch::BatchExecutor;
use crate::net::{IoObserver, ObservedStream};

/// Bounds on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcLimits {
    /// The time for a client to send the HTTP/2 preface.
    pub opening_max: Duration,
    /// The maximum number of concurrent calls.
    pub streams_max: u32,
    /// A client that is silent for this long is pinged.
    pub quiet_max: Duration,
    /// The time for the reply to a ping, after which the connection is closed.
    pub ping_max: Duration,
    /// The time for calls in flight at shutdown.
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
            streams_max: 1024,
            quiet_max: Duration::from_secs(30),
            ping_max: Duration::from_secs(20),
            drain_max: Duration::from_secs(10),
        }
    }
}

/// Serves one connection, plain or TLS that negotiated `h2`, until the client closes it or `ended`
/// completes. Calls in flight may then finish.
///
/// # Errors
///
/// When the client does not speak HTTP/2 or breaks the connection.
pub async fn serve<S>(
    stream: S,
    service: Service,
    limits: GrpcLimits,
    ended: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let preface = Arc::new(Preface::default());
    let stream = TokioIo::new(ObservedStream::new(stream, Arc::clone(&preface)));
    let executor = BatchExecutor::default();
    let connection = builder(limits, executor.clone()).serve_connection(stream, service);
    let mut connection = pin!(connection);
    let (mut ended, mut opening) = (pin!(ended), pin!(sleep(limits.opening_max)));
    let mut is_open = false;
    loop {
        tokio::select! {
            served = poll_fn(|cx| executor.poll(connection.as_mut(), cx)) => return served,
            () = &mut ended => break,
            () = &mut opening, if !is_open => {
                if preface.0.load(Ordering::Relaxed) < PREFACE_LEN {
                    return Ok(());
                }
                is_open = true;
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let drained = poll_fn(|cx| executor.poll(connection.as_mut(), cx));
    timeout(limits.drain_max, drained).await.unwrap_or(Ok(()))
}

fn builder(limits: GrpcLimits, executor: BatchExecutor) -> http2::Builder<BatchExecutor> {
    let mut builder = http2::Builder::new(executor);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(limits.quiet_max)
        .keep_alive_timeout(limits.ping_max);
    builder
}

/// The bytes read so far, up to the length of the preface. hyper sends no pings before it.
#[derive(Debug, Default)]
struct Preface(AtomicUsize);

/// What every HTTP/2 client sends first.
const PREFACE_LEN: usize = 24;

impl IoObserver for Preface {
    #[inline]
    fn read(&self, bytes: usize) {
        if self.0.load(Ordering::Relaxed) < PREFACE_LEN {
            self.0.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    #[inline]
    fn wrote(&self, _: bool) {}
}
