//! Serving HTTP: connections, their bounds and their end. Knows nothing of what is asked.

mod connection;
mod connections;
mod limits;
mod pulse;
mod waker;
mod watched;

use core::future::Future;
use core::net::SocketAddr;
use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use arc_swap::ArcSwap;
use http::Request;
use hyper::body::Incoming;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use self::connection::Shared;
pub use self::connections::{Connections, Entry};
pub use self::limits::ServeLimits;
pub(super) use self::waker::without_wakes;
use super::Reply;

/// TLS as configured now; put another one in, and new connections use it.
pub type Tls = Arc<ArcSwap<rustls::ServerConfig>>;

/// Who is at the other end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Of the TCP connection.
    pub address: SocketAddr,
    /// Whether it has shown a certificate, which the TLS configuration then has verified.
    pub is_verified: bool,
}

/// What answers requests.
pub trait Handle: Send + Sync + 'static {
    /// Answers one. A panic is answered by 500 and ends nothing else. The request is lent, because it
    /// is large and every layer of handlers would move it.
    fn handle(
        &self,
        request: &mut Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Reply> + Send;
}

/// A listener with all that it needs.
#[derive(Debug)]
pub struct Server<H> {
    /// Bound already.
    pub listener: TcpListener,
    /// What answers.
    pub handler: Arc<H>,
    /// Bounds of each connection.
    pub limits: ServeLimits,
    /// Bound of all connections together.
    pub connections: Arc<Connections>,
    /// `None` speaks plainly.
    pub tls: Option<Tls>,
}

impl<H: Handle> Server<H> {
    /// Serves until `shutdown` comes, then lets requests under way end, for as long as the limits say.
    pub async fn serve(self, shutdown: impl Future<Output = ()>) {
        let Self { listener, handler, limits, connections, tls } = self;
        let drain_timeout = limits.drain_timeout;
        let builder = connection::builder(&limits);
        let shared = Arc::new(Shared { handler, limits, connections, tls, builder });
        let (end, ended) = watch::channel(());
        // Dropped with this future, and every connection with it.
        let mut tasks = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            tokio::select! {
                biased;
                () = &mut shutdown => break,
                Some(_) = tasks.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => {
                        begin(&shared, stream, address, &ended, &mut tasks);
                    }
                    // Most likely there are too many open files: some time lets some close.
                    Err(_) => sleep(ACCEPT_PAUSE).await,
                },
            }
        }
        // Whoever comes now is refused by the kernel.
        drop((listener, ended));
        let _ = end.send(());
        let _ = timeout(drain_timeout, async { while tasks.join_next().await.is_some() {} }).await;
    }
}

fn begin<H: Handle>(
    shared: &Arc<Shared<H>>,
    stream: TcpStream,
    address: SocketAddr,
    ended: &watch::Receiver<()>,
    tasks: &mut JoinSet<()>,
) {
    let Some(entry) = shared.connections.enter() else {
        if shared.tls.is_none() {
            // As good as it can be done without waiting for anybody.
            let _ = stream.try_write(TOO_MANY);
        }
        return;
    };
    let (shared, ended) = (Arc::clone(shared), ended.clone());
    tasks.spawn(async move {
        connection::serve(shared, stream, address, ended).await;
        drop(entry);
    });
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TOO_MANY: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\n\
    content-length: 0\r\nconnection: close\r\nretry-after: 1\r\n\r\n";
