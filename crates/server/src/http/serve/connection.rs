//! One HTTP connection.

use core::convert::Infallible;
use core::future::Future;
use core::pin::{Pin, pin};
use std::sync::Arc;

use http::Request;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

use super::{Connections, Handle, Peer, ServeLimits, TlsConfig};
use crate::http::error;
use crate::net::{
    ActiveRequest, CONNECTION_WINDOW, ConnectionEnd, ObservedStream, STREAM_WINDOW, Stop, drive,
};

/// The state that all connections of a listener share.
#[derive(Debug)]
pub(super) struct Shared<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: ServeLimits,
    pub(super) connections: Arc<Connections>,
    pub(super) tls: Option<TlsConfig>,
    pub(super) builder: Builder<TokioExecutor>,
}

/// hyper panics below this.
const HEAD_MIN: usize = 8192;

pub(super) fn builder(limits: &ServeLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Replies are small: copying one after its head is cheaper than a vectored write.
    builder.http1().max_buf_size(limits.head_max.max(HEAD_MIN)).half_close(false).writev(false);
    builder
        .http2()
        .max_concurrent_streams(limits.streams_max)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(u32::try_from(limits.head_max).unwrap_or(u32::MAX));
    builder
}

/// Serves a connection until the client closes it, a timeout expires, or shutdown.
pub(super) async fn serve<H: Handle>(
    shared: Arc<Shared<H>>,
    stream: TcpStream,
    peer: Peer,
    stop: Stop,
) {
    let Some(tls) = &shared.tls else {
        return exchange(shared, peer, stream, stop).await;
    };
    let accept = TlsAcceptor::from(tls.load_full()).accept(stream);
    match timeout(shared.limits.header_timeout, accept).await {
        Ok(Ok(stream)) => {
            let is_verified = stream.get_ref().1.peer_certificates().is_some();
            let peer = Peer { is_verified, ..peer };
            exchange(shared, peer, stream, stop).await;
        }
        // A client without TLS gets no reply.
        Ok(Err(_)) => {}
        Err(_) => shared.connections.cut.add(1),
    }
}

/// The state that all requests of a connection share, behind one reference count.
struct Connection<H> {
    shared: Arc<Shared<H>>,
    peer: Peer,
}

/// Boxed and built outside an async function: the state for building a connection is large, and
/// would stay on the stack whenever the connection is polled.
fn exchange<H: Handle, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    shared: Arc<Shared<H>>,
    peer: Peer,
    stream: S,
    stop: Stop,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let stream = ObservedStream::new(stream, Arc::clone(&peer.activity));
    let connection = Arc::new(Connection { shared, peer });
    let service = {
        let connection = Arc::clone(&connection);
        service_fn(move |mut request: Request<Incoming>| {
            let connection = Arc::clone(&connection);
            async move {
                let Connection { shared, peer } = &*connection;
                let _active = ActiveRequest::begin(&*peer.activity);
                let reply = pin!(shared.handler.handle(&mut request, peer));
                let reply = shared.connections.catch_panic(reply).await;
                Ok::<_, Infallible>(reply.unwrap_or_else(|| error::panicked().map(H::Body::from)))
            }
        })
    };
    let http = connection.shared.builder.serve_connection(TokioIo::new(stream), service);
    let http = http.into_owned();
    Box::pin(async move {
        let Connection { shared, peer } = &*connection;
        let (stopped, timeouts) = (stop.clone().wait(), shared.limits.timeouts());
        let ended = drive(http, &peer.activity, &timeouts, stopped, || stop.has_news()).await;
        if ended == ConnectionEnd::Cut {
            shared.connections.cut.add(1);
        }
    })
}
