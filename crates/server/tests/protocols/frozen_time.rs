//! Timeouts of servers in the test's process, without waiting for them.

use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use slidegate_testkit::server::poll_async;
use tokio::time::Instant;

/// The clock of tokio's timers, which moves only in [`until`](FrozenTime::until).
///
/// Sockets work as usual. So no timeout expires while a client sends or receives; it expires only when
/// the test advances the clock. The runtime must have a single thread.
pub(crate) struct FrozenTime {
    _end: mpsc::Sender<()>,
}

impl FrozenTime {
    pub(crate) fn new() -> Self {
        tokio::time::pause();
        // A paused clock jumps to the next timer whenever all tasks wait, be it for a socket. It does
        // not while a blocking task runs.
        let (end, ended) = mpsc::channel();
        tokio::task::spawn_blocking(move || ended.recv());
        Self { _end: end }
    }

    /// Moves the clock on, a quarter of `timeout` at a time, until `future` is ready. Panics if it is
    /// ready before `timeout` has passed on the clock.
    pub(crate) async fn until<T>(
        &self,
        timeout: Duration,
        what: &str,
        future: impl Future<Output = T>,
    ) -> T {
        let mut future = pin!(future);
        let started = Instant::now();
        let ready = poll_async(what, async || {
            let look = std::future::poll_fn(|context| Poll::Ready(future.as_mut().poll(context)));
            if let Poll::Ready(output) = look.await {
                return Some(output);
            }
            tokio::time::advance(timeout / 4).await;
            None
        });
        let output = ready.await.unwrap();
        assert!(started.elapsed() >= timeout, "{what} after {:?}", started.elapsed());
        output
    }
}
