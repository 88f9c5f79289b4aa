//! gRPC on a listener.

use core::pin::pin;
use core::time::Duration;

use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;

use super::Service;

/// The most calls of a connection at once.
const STREAMS_MAX: u32 = 1024;
/// The most streams that a client may have opened and given up before it was looked at.
const RESETS_MAX: usize = 64;
/// The most bytes of header fields.
const HEADERS_MAX: u32 = 16 << 10;
/// A client that says nothing for so long is asked, and cut when it does not answer.
const QUIET_MAX: Duration = Duration::from_secs(30);
const PING_MAX: Duration = Duration::from_secs(20);
/// How long calls may take to end after the shutdown began.
pub const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long to wait when no connection can be accepted, as without free file descriptors.
const ACCEPT_REST: Duration = Duration::from_millis(10);

/// How connections are served, with everything bounded.
pub fn connections() -> http2::Builder<TokioExecutor> {
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_pending_accept_reset_streams(RESETS_MAX)
        .max_header_list_size(HEADERS_MAX)
        .keep_alive_interval(QUIET_MAX)
        .keep_alive_timeout(PING_MAX);
    builder
}

/// Serves a listener until `shutdown`; then accepts no more, and returns when all calls have
/// ended, or after [`DRAIN_MAX`].
pub async fn serve(listener: TcpListener, service: Service, shutdown: impl Future<Output = ()>) {
    let connections = connections();
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut shutdown => break,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_REST).await;
            continue;
        };
        // Answers are small, and somebody waits for each.
        let _ = stream.set_nodelay(true);
        let connection = connections.serve_connection(TokioIo::new(stream), service.clone());
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            // A client that goes away, or speaks something else, is nobody's error here.
            let _ = connection.await;
        });
    }
    drop(listener);
    let _ = tokio::time::timeout(DRAIN_MAX, graceful.shutdown()).await;
}
