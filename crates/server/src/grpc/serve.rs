//! One connection of gRPC.

use core::future::poll_fn;
use core::pin::pin;
use core::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{sleep, timeout};

use super::Service;
use super::arrivals::Arrivals;
use super::opening::Opening;

/// Bounds of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GrpcLimits {
    /// How long a client may take to begin to speak HTTP/2.
    pub opening_max: Duration,
    /// Calls under way at once.
    pub streams_max: u32,
    /// A client that says nothing for so long is asked whether it is there.
    pub quiet_max: Duration,
    /// And cut when it does not answer in this time.
    pub ping_max: Duration,
    /// How long calls may take to end when it is time to end.
    pub drain_max: Duration,
}

/// The most streams that a client may have opened and given up before they were looked at.
const RESETS_MAX: usize = 64;
/// The most bytes of header fields.
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

/// Serves one connection, plain or of TLS that has negotiated `h2`, until its client goes away or
/// `ended` comes; then calls under way may end, and no others begin.
///
/// # Errors
///
/// When the client does not speak HTTP/2, or goes away without a word: its own affair.
pub async fn serve<S>(
    stream: S,
    service: Service,
    limits: GrpcLimits,
    ended: impl Future<Output = ()>,
) -> Result<(), hyper::Error>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (stream, opened) = Opening::new(stream);
    let arrivals = Arrivals::default();
    let connection =
        builder(limits, arrivals.clone()).serve_connection(TokioIo::new(stream), service);
    let mut connection = pin!(connection);
    let (mut ended, mut opening) = (pin!(ended), pin!(sleep(limits.opening_max)));
    let mut is_open = false;
    loop {
        tokio::select! {
            served = poll_fn(|cx| arrivals.poll(connection.as_mut(), cx)) => return served,
            () = &mut ended => break,
            () = &mut opening, if !is_open => {
                if !opened.is_done() {
                    return Ok(());
                }
                is_open = true;
            }
        }
    }
    connection.as_mut().graceful_shutdown();
    let drained = poll_fn(|cx| arrivals.poll(connection.as_mut(), cx));
    timeout(limits.drain_max, drained).await.unwrap_or(Ok(()))
}

fn builder(limits: GrpcLimits, arrivals: Arrivals) -> http2::Builder<Arrivals> {
    let mut builder = http2::Builder::new(arrivals);
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.streams_max)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(limits.quiet_max)
        .keep_alive_timeout(limits.ping_max);
    builder
}
