//! One connection, from its first byte to its end.

use core::convert::Infallible;
use core::future::{Future, poll_fn};
use core::net::SocketAddr;
use core::panic::AssertUnwindSafe;
use core::pin::{Pin, pin};
use core::task::{Context, Poll};
use std::panic::catch_unwind;
use std::sync::Arc;

use http::{Request, Version};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulConnection;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsAcceptor;

use super::connections::Connections;
use super::limits::{HEAD_MIN, ServeLimits};
use super::pulse::{Marks, Pulse, Verdict};
use super::waker::ConnectionWaker;
use super::watched::Watched;
use super::{Handle, Peer, Tls};
use crate::http::{Reply, problem};

/// What all connections of a listener share.
#[derive(Debug)]
pub(super) struct Shared<H> {
    pub(super) handler: Arc<H>,
    pub(super) limits: ServeLimits,
    pub(super) connections: Arc<Connections>,
    pub(super) tls: Option<Tls>,
    pub(super) builder: Builder<TokioExecutor>,
}

/// How connections are served, by these limits.
pub(super) fn builder(limits: &ServeLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Answers are small: to copy one behind its head takes less than to write both from two places.
    builder.http1().max_buf_size(limits.head_max.max(HEAD_MIN)).half_close(false).writev(false);
    builder
        .http2()
        .max_concurrent_streams(limits.streams_max)
        .max_header_list_size(u32::try_from(limits.head_max).unwrap_or(u32::MAX));
    builder
}

/// Serves one connection until it ends, is too slow, or is told to end.
pub(super) async fn serve<H: Handle>(
    shared: Arc<Shared<H>>,
    stream: TcpStream,
    address: SocketAddr,
    drain: watch::Receiver<()>,
) {
    // Answers are small and whole: waiting to fill a packet only delays them.
    let _ = stream.set_nodelay(true);
    let marks = Arc::new(Marks::default());
    let stream = Watched::new(stream, Arc::clone(&marks));
    let Some(tls) = &shared.tls else {
        let peer = Peer { address, is_verified: false };
        return exchange(Line { shared, marks, peer }, stream, drain).await;
    };
    let accept = TlsAcceptor::from(tls.load_full()).accept(stream);
    match timeout(shared.limits.header_timeout, accept).await {
        Ok(Ok(stream)) => {
            let is_verified = stream.get_ref().1.peer_certificates().is_some();
            let peer = Peer { address, is_verified };
            exchange(Line { shared, marks, peer }, stream, drain).await;
        }
        // Whoever does not speak TLS is not told anything.
        Ok(Err(_)) => {}
        Err(_) => shared.connections.note_cut(),
    }
}

/// What all requests of a connection share, in one piece: each holds on to it once.
struct Line<H> {
    shared: Arc<Shared<H>>,
    marks: Arc<Marks>,
    peer: Peer,
}

/// In a box, and made by a function that ends: what it takes to make a connection is large, and would
/// be on the stack whenever the connection is polled.
fn exchange<H: Handle, S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    line: Line<H>,
    stream: S,
    drain: watch::Receiver<()>,
) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    let line = Arc::new(line);
    let service = {
        let line = Arc::clone(&line);
        service_fn(move |mut request: Request<Incoming>| {
            let line = Arc::clone(&line);
            async move {
                let Line { shared, marks, peer } = &*line;
                let _busy = marks.begin(request.version() == Version::HTTP_2);
                let mut answer = pin!(shared.handler.handle(&mut request, peer));
                let panicked = || {
                    shared.connections.note_panic();
                    problem::panicked()
                };
                let reply = poll_fn(|cx| caught(|| answer.as_mut().poll(cx), panicked)).await;
                Ok::<Reply, Infallible>(reply)
            }
        })
    };
    let connection = line.shared.builder.serve_connection(TokioIo::new(stream), service);
    let connection = connection.into_owned();
    Box::pin(async move {
        let Line { shared, marks, .. } = &*line;
        if drive(connection, marks, &shared.limits, drain).await == Verdict::Cut {
            shared.connections.note_cut();
        }
    })
}

/// What a future answers when it is polled, or what is answered if it panicked.
#[inline]
fn caught<T>(poll: impl FnOnce() -> Poll<T>, panicked: impl FnOnce() -> T) -> Poll<T> {
    // It is not polled again, so whatever state it is in does not matter.
    catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| Poll::Ready(panicked()))
}

/// Polls a connection. The timer and the order to end are asked once, so that they wake this task,
/// and then only when they have something to say: requests do not pay for them.
async fn drive<C: GracefulConnection>(
    connection: C,
    marks: &Marks,
    limits: &ServeLimits,
    mut drain: watch::Receiver<()>,
) -> Verdict {
    let period = Pulse::period(limits);
    let mut pulse = Pulse::new(limits);
    let probe = drain.clone();
    let mut connection = pin!(connection);
    let mut beat = pin!(sleep(period));
    let mut ended = pin!(drain.changed());
    let (mut is_asked, mut is_ending) = (false, false);
    let mut waker = ConnectionWaker::default();
    poll_fn(|cx| {
        if !is_asked || beat.is_elapsed() {
            while beat.as_mut().poll(cx).is_ready() {
                match pulse.beat(marks) {
                    Verdict::Keep => {}
                    Verdict::Close => connection.as_mut().graceful_shutdown(),
                    Verdict::Cut => return Poll::Ready(Verdict::Cut),
                }
                beat.as_mut().reset(Instant::now() + period);
            }
        }
        let is_news = !is_asked || probe.has_changed().unwrap_or(true);
        if !is_ending && is_news && ended.as_mut().poll(cx).is_ready() {
            is_ending = true;
            connection.as_mut().graceful_shutdown();
        }
        is_asked = true;
        let mut cx = Context::from_waker(waker.of(cx.waker()));
        connection.as_mut().poll(&mut cx).map(|_| Verdict::Close)
    })
    .await
}
