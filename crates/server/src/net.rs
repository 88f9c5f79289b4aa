//! What all listeners share: accepting and counting connections, shutdown, observed streams.

use core::panic::AssertUnwindSafe;
use core::pin::{Pin, pin};
use core::sync::atomic::{AtomicUsize, Ordering};
use core::task::{Context, Poll};
use core::time::Duration;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::panic::catch_unwind;
use std::sync::Arc;

use slidegate_gate::Count;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// The shutdown signal, for tasks that wait for it.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Ends every task that holds a [`Stop`].
#[derive(Debug, Default)]
pub struct Stopper(watch::Sender<bool>);

impl Stopper {
    /// The receiving side.
    pub fn stop(&self) -> Stop {
        Stop(self.0.subscribe())
    }

    /// Sends the signal.
    pub fn end(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Waits for the signal. Also returns when the [`Stopper`] is dropped.
    pub async fn wait(mut self) {
        let _ = self.0.wait_for(|ended| *ended).await;
    }

    /// Whether the signal was sent.
    pub fn is_over(&self) -> bool {
        *self.0.borrow()
    }

    /// Whether the signal was sent since this receiver was created. Cheaper than
    /// [`is_over`](Stop::is_over).
    pub(crate) fn has_news(&self) -> bool {
        self.0.has_changed().unwrap_or(true)
    }
}

/// Listens on an address.
///
/// # Errors
///
/// When the address is in use or not local. The message contains `name`.
pub(crate) async fn listen(name: &str, address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => format!(
            "cannot listen on {address} for {name}: something else listens there; choose another \
             with --listen-{name} or `listen.{name}`"
        ),
        _ => format!("cannot listen on {address} for {name}: {error}"),
    })
}

/// Accepts connections until the shutdown signal, and spawns the future that `serve` returns for each,
/// which holds the slot until it ends. Connections above the maximum are sent `refusal` and closed.
pub(crate) async fn accept_all<F>(
    listener: &TcpListener,
    connections: &Arc<Connections>,
    stop: &Stop,
    refusal: &[u8],
    tasks: &mut JoinSet<()>,
    serve: impl Fn(TcpStream, SocketAddr, ConnectionSlot) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    /// Out of file descriptors, most likely: trying again at once does not help.
    const PAUSE: Duration = Duration::from_millis(50);
    let mut stopped = pin!(stop.clone().wait());
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stopped => return,
            Some(_) = tasks.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, address)) => {
                let Some(slot) = connections.enter() else {
                    // Best effort: a client is never waited for.
                    let _ = stream.try_write(refusal);
                    continue;
                };
                // Replies are small and whole: waiting to fill a packet only delays them.
                let _ = stream.set_nodelay(true);
                tasks.spawn(serve(stream, address, slot));
            }
            Err(error) if is_of_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::ConnectionRefused
    )
}

/// Bounds and counts the connections of one or more listeners.
#[derive(Debug, Default)]
pub struct Connections {
    max: usize,
    open: AtomicUsize,
    /// Connections accepted so far.
    pub accepted: Count,
    /// Connections refused because of the maximum.
    pub refused: Count,
    /// Connections closed because the client was too slow.
    pub cut: Count,
    /// Requests whose handler panicked.
    pub panics: Count,
}

impl Connections {
    /// At most `max` at a time.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, ..Self::default() })
    }

    /// Connections that are open.
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Takes a slot. Returns `None` if all are taken.
    pub fn enter(self: &Arc<Self>) -> Option<ConnectionSlot> {
        let one_more = |open| (open < self.max).then_some(open + 1);
        // Only the number itself matters, so nothing has to be ordered with it.
        match self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more) {
            Ok(_) => {
                self.accepted.add(1);
                Some(ConnectionSlot(Arc::clone(self)))
            }
            Err(_) => {
                self.refused.add(1);
                None
            }
        }
    }
}

/// One of the open connections, until dropped.
#[derive(Debug)]
pub struct ConnectionSlot(Arc<Connections>);

impl Drop for ConnectionSlot {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Polls a future to its end. Returns `None` if it panicked.
///
/// The future is borrowed: an async function that takes it by value would keep two copies of it.
pub(crate) async fn catch_panic<F: Future>(mut future: Pin<&mut F>) -> Option<F::Output> {
    core::future::poll_fn(|cx| {
        // After a panic the future is not polled again, so its state does not matter.
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Some),
            Err(_) => Poll::Ready(None),
        }
    })
    .await
}

/// Learns when bytes arrive and leave.
pub(crate) trait IoObserver {
    /// Bytes arrived.
    fn read(&self, bytes: usize);
    /// A write finished, or is pending because the client does not read.
    fn wrote(&self, is_pending: bool);
}

/// A stream with an observer.
#[derive(Debug)]
pub(crate) struct ObservedStream<S, O> {
    stream: S,
    observer: Arc<O>,
}

impl<S, O: IoObserver> ObservedStream<S, O> {
    pub(crate) fn new(stream: S, observer: Arc<O>) -> Self {
        Self { stream, observer }
    }
}

impl<S: AsyncRead + Unpin, O: IoObserver> AsyncRead for ObservedStream<S, O> {
    #[inline]
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        let bytes = buffer.filled().len() - before;
        if bytes > 0 {
            self.observer.read(bytes);
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, O: IoObserver> AsyncWrite for ObservedStream<S, O> {
    #[inline]
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.observer.wrote(written.is_pending());
        written
    }

    #[inline]
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.observer.wrote(written.is_pending());
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_connection_frees_its_slot() {
        let connections = Connections::new(2);
        let first = connections.enter().unwrap();
        let _second = connections.enter().unwrap();
        assert!(connections.enter().is_none());
        drop(first);
        assert!(connections.enter().is_some());
        assert_eq!((connections.accepted.get(), connections.refused.get()), (3, 1));
        assert_eq!(connections.open(), 1);
    }
}
