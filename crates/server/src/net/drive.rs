//! Polls a connection until it ends or its client is too slow.

use core::future::{Future, poll_fn};
use core::pin::{Pin, pin};
use core::task::{Context, Poll};

use hyper_util::server::graceful::GracefulConnection;
use tokio::time::{Instant, sleep};

use super::timeouts::{Activity, ConnectionTimeouts, TimeoutAction, Timeouts};

/// A connection that can be polled and shut down.
pub(crate) trait Drive {
    /// Polls the connection. Ready when it has ended, for any reason.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;
    /// Finishes requests in flight and accepts no more.
    fn shut_down(self: Pin<&mut Self>);
}

impl<C: GracefulConnection> Drive for C {
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        Future::poll(self, cx).map(|_| ())
    }

    fn shut_down(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// The way a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionEnd {
    /// The client closed it, it was idle, or the process shuts down.
    Closed,
    /// The client was too slow, or flooded the server.
    Cut,
}

/// Polls a connection until it ends, a timeout expires, or `stopped` is ready and requests in
/// flight are finished.
///
/// The timer and `stopped` are polled once to register this task, and then only when the timer has
/// fired or `may_stop` returns `true`. So requests do not pay for them.
pub(crate) async fn drive(
    connection: impl Drive,
    activity: &Activity,
    limits: &ConnectionTimeouts,
    stopped: impl Future<Output = ()>,
    may_stop: impl Fn() -> bool,
) -> ConnectionEnd {
    let mut timeouts = Timeouts::new(limits);
    let period = limits.period();
    let mut connection = pin!(connection);
    let mut tick = pin!(sleep(period));
    let mut stopped = pin!(stopped);
    let (mut is_registered, mut is_ending) = (false, false);
    poll_fn(|cx| {
        if !is_registered || tick.is_elapsed() {
            while tick.as_mut().poll(cx).is_ready() {
                match timeouts.tick(activity) {
                    TimeoutAction::Keep => {}
                    TimeoutAction::Close => connection.as_mut().shut_down(),
                    TimeoutAction::Cut => return Poll::Ready(ConnectionEnd::Cut),
                }
                tick.as_mut().reset(Instant::now() + period);
            }
        }
        if !is_ending && (!is_registered || may_stop()) && stopped.as_mut().poll(cx).is_ready() {
            is_ending = true;
            timeouts.close();
            connection.as_mut().shut_down();
        }
        is_registered = true;
        connection.as_mut().poll(cx).map(|()| {
            // A flood causes a failed read, which ends the connection.
            if activity.is_flooded() { ConnectionEnd::Cut } else { ConnectionEnd::Closed }
        })
    })
    .await
}
