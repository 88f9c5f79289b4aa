//! One HTTP connection.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::pin::{Pin, pin};
use core::task::Poll;
use std::sync::Arc;

use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::timeouts::{Activity, BeatResult, Timeouts};
use super::{Connections, Handle, Peer, ServeLimits, TlsConfig};
use crate::http::{Reply, error};
use crate::net::{ObservedStream, Stop, catch_panic};

/// What all connections of a listener share.
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
    // Replies are small: copying one behind its head is cheaper than a vectored write.
    builder.http1().max_buf_size(limits.head_max.max(HEAD_MIN)).half_close(false).writev(false);
    builder
        .http2()
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.head_max).unwrap_or(u32::MAX));
    builder
}

/// Serves a connection until the client closes it, a timeout expires, or shutdown.
pub(super) async fn serve<H: Handle>(
    shared: Arc<Shared<H>>,
    stream: TcpStream,
    address: SocketAddr,
    stop: Stop,
) {
    let activity = Arc::new(Activity::default());
    let stream = ObservedStream::new(stream, Arc::clone(&activity));
    let Some(tls) = &shared.tls else {
        let peer = Peer { address, is_verified: false };
        return exchange(Connection { shared, activity, peer }, stream, stop).await;
    };
    let accept = TlsAcceptor::from(tls.load_full()).accept(stream);
    match timeout(shared.limits.header_timeout, accept).await {
        Ok(Ok(stream)) => {
            let is_verified = stream.get_ref().1.peer_certificates().is_some();
            let peer = Peer { address, is_verified };
            exchange(Connection { shared, activity, peer }, stream, stop).await;
        }
        // A client that does not speak TLS gets no reply.
        Ok(Err(_)) => {}
        Err(_) => shared.connections.cut.add(1),
    }
}

/// What all requests of a connection share, behind one reference count.
struct Connection<H> {
    shared: Arc<Shared<H>>,
    activity: Arc<Activity>,
    peer: Peer,
}

/// Boxed and built outside an async function: what it takes to build a connection is large, and would
/// stay on the stack whenever the connection is polled.
fn exchange<H: Handle, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    connection: Connection<H>,
    stream: S,
    stop: Stop,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let connection = Arc::new(connection);
    let service = {
        let connection = Arc::clone(&connection);
        service_fn(move |mut request: Request<Incoming>| {
            let connection = Arc::clone(&connection);
            async move {
                let Connection { shared, activity, peer } = &*connection;
                let _active = activity.begin(request.version() == Version::HTTP_2);
                let reply = pin!(shared.handler.handle(&mut request, peer));
                Ok::<Reply, Infallible>(catch_panic(reply).await.unwrap_or_else(|| {
                    shared.connections.panics.add(1);
                    error::panicked()
                }))
            }
        })
    };
    let http = connection.shared.builder.serve_connection(TokioIo::new(stream), service);
    let http = http.into_owned();
    Box::pin(async move {
        let Connection { shared, activity, .. } = &*connection;
        if drive(http, activity, &shared.limits, stop).await == BeatResult::Cut {
            shared.connections.cut.add(1);
        }
    })
}

/// Polls a connection. The timer and the shutdown signal are polled once, to register this task, and
/// then only when they have fired: requests do not pay for them.
async fn drive<C: GracefulConnection>(
    connection: C,
    activity: &Activity,
    limits: &ServeLimits,
    stop: Stop,
) -> BeatResult {
    let mut timeouts = Timeouts::new(limits);
    let period = Timeouts::period(limits);
    let mut connection = pin!(connection);
    let mut beat = pin!(sleep(period));
    let mut stopped = pin!(stop.clone().wait());
    let (mut is_registered, mut is_ending) = (false, false);
    poll_fn(|cx| {
        if !is_registered || beat.is_elapsed() {
            while beat.as_mut().poll(cx).is_ready() {
                match timeouts.beat(activity) {
                    BeatResult::Keep => {}
                    BeatResult::Close => connection.as_mut().graceful_shutdown(),
                    BeatResult::Cut => return Poll::Ready(BeatResult::Cut),
                }
                beat.as_mut().reset(Instant::now() + period);
            }
        }
        let is_news = !is_registered || stop.has_news();
        if !is_ending && is_news && stopped.as_mut().poll(cx).is_ready() {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
        is_registered = true;
        connection.as_mut().poll(cx).map(|_| BeatResult::Close)
    })
    .await
}
