//! HTTP connections with bounds and graceful shutdown, for any handler.

mod connection;

use core::convert::Infallible;
use core::future::Future;
use core::net::SocketAddr;
use core::time::Duration;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Body, Bytes, Incoming};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::connection::Shared;
use crate::net::{Activity, ConnectionTimeouts, Stopper, accept_all};
pub use crate::net::{ConnectionSlot, Connections};

/// The current TLS configuration. New connections use the latest one.
pub type TlsConfig = Arc<ArcSwap<rustls::ServerConfig>>;

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// The address of the TCP connection.
    pub address: SocketAddr,
    /// What it does.
    pub activity: Arc<Activity>,
    /// Whether it presented a certificate, which the TLS configuration has verified.
    pub is_verified: bool,
}

/// Replies to requests.
pub trait Handle: Send + Sync + 'static {
    /// The body of replies: [`Full`], unless the handler sends some reply in pieces.
    type Body: Body<Data = Bytes, Error = Infallible> + From<Full<Bytes>> + Send + 'static;

    /// Handles one request. A panic causes a 500 and does not end the connection.
    ///
    /// The request is borrowed because it is large and every layer would move it.
    fn handle(
        &self,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Response<Self::Body>> + Send;
}

/// Bounds on connections. The defaults suit a service behind proxies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServeLimits {
    /// The time for the head of a request, from its first byte, and for a TLS handshake.
    pub header_timeout: Duration,
    /// The time for a whole request, including its body.
    pub request_timeout: Duration,
    /// The time for a client to read its reply.
    pub write_timeout: Duration,
    /// The time after which a connection without a request is closed.
    pub idle_timeout: Duration,
    /// The time for requests in flight at shutdown.
    pub drain_timeout: Duration,
    /// The maximum number of concurrent requests on an HTTP/2 connection.
    pub streams_max: u32,
    /// The maximum size of a request head in bytes, at least 8192.
    pub head_max: usize,
}

impl Default for ServeLimits {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            write_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(10),
            streams_max: 128,
            head_max: 32 << 10,
        }
    }
}

impl ServeLimits {
    fn timeouts(&self) -> ConnectionTimeouts {
        ConnectionTimeouts {
            header: self.header_timeout,
            request: self.request_timeout,
            write: self.write_timeout,
            idle: self.idle_timeout,
            drain: self.drain_timeout,
        }
    }
}

/// An HTTP listener.
#[derive(Debug)]
pub struct Server<H> {
    /// A bound listener.
    pub listener: TcpListener,
    /// Replies to requests.
    pub handler: Arc<H>,
    /// Bounds on each connection.
    pub limits: ServeLimits,
    /// Bounds the number of connections.
    pub connections: Arc<Connections>,
    /// `None` for plain text.
    pub tls: Option<TlsConfig>,
}

impl<H: Handle> Server<H> {
    /// Serves until `shutdown`, then waits for requests in flight, for at most
    /// [`ServeLimits::drain_timeout`].
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, handler, limits, connections, tls } = self;
        let drain_timeout = limits.drain_timeout;
        let builder = connection::builder(&limits);
        // A client that expects TLS could not read a refusal.
        let refusal = if tls.is_some() { &[][..] } else { TOO_MANY };
        let shared = Arc::new(Shared { handler, limits, connections, tls, builder });
        let stopper = Stopper::default();
        let stop = stopper.stop();
        // Dropped with this future, together with every connection.
        let mut tasks = JoinSet::new();
        let serve = |stream, address, slot: ConnectionSlot| {
            let (shared, stop) = (Arc::clone(&shared), stop.clone());
            async move {
                let activity = Arc::clone(slot.activity());
                let peer = Peer { address, activity, is_verified: false };
                connection::serve(shared, stream, peer, stop).await;
                drop(slot);
            }
        };
        let connections = &shared.connections;
        let accepting = accept_all(&listener, connections, &stop, refusal, &mut tasks, serve);
        tokio::select! {
            biased;
            () = shutdown => {}
            () = accepting => {}
        }
        // From now on the kernel refuses connections.
        drop(listener);
        stopper.end();
        let _ = timeout(drain_timeout, async { while tasks.join_next().await.is_some() {} }).await;
    }
}

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";
