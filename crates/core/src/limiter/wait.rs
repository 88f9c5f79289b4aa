//! Waiting for units, in order of arrival.

use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;
use std::sync::Arc;
use std::task::Wake;
use std::thread::{self, Thread};
use std::time::Instant;

use super::{Limiter, WithQuotas};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::memory::{Confirm, EnqueueResult, QueueFull, Request, Turn};

impl Limiter {
    /// Takes units as soon as they are available, within `timeout`.
    ///
    /// Callers that wait for the same key are served in order, and no check overtakes them. Units
    /// that are refunded, because an earlier caller gives up or a reservation is settled, move the
    /// queue up and wake the callers that are due. If the caller would be due after the timeout,
    /// the wait is denied immediately. If that becomes known later, it is denied when the timeout
    /// expires. Dropping the future leaves the queue.
    ///
    /// The future does not depend on a runtime: `sleep` is called with the time to sleep, and its
    /// future is polled until it is ready or the caller is due earlier.
    ///
    /// ```
    /// use slidegate::{Cost, Limiter, ManualClock, Policy, Quota};
    /// use std::time::Duration;
    /// # use std::{future::Future, pin::pin, task::{Context, Poll, Waker}};
    /// # fn block_on<F: Future>(future: F) -> F::Output {
    /// #     let mut future = pin!(future);
    /// #     loop {
    /// #         let poll = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    /// #         if let Poll::Ready(output) = poll { return output }
    /// #     }
    /// # }
    /// let clock = ManualClock::new(Duration::from_secs(1000));
    /// let limiter = Limiter::builder(Policy::new("demo", Quota::per_minute(1))?)
    ///     .clock(clock.clone())
    ///     .build()?;
    /// let _first = limiter.check("alice");
    ///
    /// // In a real program: `limiter.wait_timeout("alice", cost, timeout, tokio::time::sleep)`.
    /// let sleep = |time| { clock.advance(time); std::future::ready(()) };
    /// let wait = limiter.wait_timeout("alice", Cost::ONE, Duration::from_secs(90), sleep);
    /// assert!(block_on(wait)?.is_allowed());
    /// # Ok::<(), slidegate::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error of the kind [`ErrorKind::Unsupported`] if the algorithm is neither a log
    /// nor GCRA, and of the kind [`ErrorKind::Waiters`] if the caller would have to wait and
    /// `waiters_max` callers wait already, or `waiters_per_key_max` for the same key.
    pub async fn wait_timeout<K, S, F>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
        sleep: S,
    ) -> Result<Decision, Error>
    where
        K: Key + ?Sized,
        S: FnMut(Duration) -> F,
        F: Future<Output = ()>,
    {
        self.with_policy().wait_timeout(key, cost, timeout, sleep).await
    }

    /// Blocks the thread until the units are available: see
    /// [`wait_timeout`](Limiter::wait_timeout).
    ///
    /// # Errors
    ///
    /// The same as [`wait_timeout`](Limiter::wait_timeout).
    pub fn wait_timeout_blocking<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        self.with_policy().wait_timeout_blocking(key, cost, timeout)
    }

    fn require_queue(&self) -> Result<(), Error> {
        if self.waits {
            return Ok(());
        }
        let message = format!(
            "{:?} does not support waiting: use Algorithm::Log or Algorithm::Gcra",
            self.policy.algorithm()
        );
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

impl QueueFull {
    fn into_error(self) -> Error {
        let message = match self {
            Self::Limiter(waiters) => {
                format!("{waiters} callers wait already: raise waiters_max or shed load earlier")
            }
            Self::Key(waiters) => format!(
                "{waiters} callers wait for this key already: raise waiters_per_key_max or shed \
                 load earlier"
            ),
        };
        Error::new(ErrorKind::Waiters, message)
    }
}

impl WithQuotas<'_> {
    /// Takes units as soon as they are available, within `timeout`: see [`Limiter::wait_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`Limiter::wait_timeout`].
    pub async fn wait_timeout<K, S, F>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
        mut sleep: S,
    ) -> Result<Decision, Error>
    where
        K: Key + ?Sized,
        S: FnMut(Duration) -> F,
        F: Future<Output = ()>,
    {
        let limiter = self.limiter;
        limiter.require_queue()?;
        let request = self.request(key, cost.get());
        let end = request.moment.now.saturating_add(limiter.scale.window(timeout));
        let within = if timeout.is_zero() { 0 } else { end - request.moment.now };
        let mut turn = match limiter.store.enqueue(&request, within) {
            EnqueueResult::Granted(decision) | EnqueueResult::Denied(decision) => {
                return Ok(limiter.finish(decision));
            }
            EnqueueResult::Full(full) => return Err(full.into_error()),
            EnqueueResult::Waiting(turn) => turn,
        };
        let place = QueuePosition { limiter, request, id: turn.id };
        loop {
            let wait = turn.due.min(end).saturating_sub(turn.now);
            if wait > 0 {
                place.sleep(&turn, sleep(limiter.scale.duration(wait))).await;
            }
            let request = Request { moment: limiter.moment(), ..request };
            turn = match limiter.store.confirm(&request, turn.id) {
                Confirm::Granted(decision) | Confirm::Denied(decision) => {
                    return Ok(limiter.finish(decision));
                }
                Confirm::Waiting(turn) => turn,
            };
            if turn.now >= end {
                drop(place);
                return Ok(limiter.finish(limiter.store.peek(&request).into_denied()));
            }
        }
    }

    /// Blocks the thread until the units are available: see [`Limiter::wait_timeout`].
    ///
    /// # Errors
    ///
    /// The same as [`Limiter::wait_timeout`].
    pub fn wait_timeout_blocking<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        let alarm = Alarm::default();
        alarm.block_on(self.wait_timeout(key, cost, timeout, |time| alarm.sleep(time)))
    }
}

/// A place in the queue. Dropping it leaves the queue, unless the caller has left already.
struct QueuePosition<'a> {
    limiter: &'a Limiter,
    request: Request<'a>,
    id: u64,
}

impl QueuePosition<'_> {
    /// Waits until `sleep` is ready or the caller is due earlier than `turn`.
    async fn sleep(&self, turn: &Turn, sleep: impl Future<Output = ()>) {
        let mut sleep = pin!(sleep);
        let store = &self.limiter.store;
        poll_fn(|context| {
            if store.watch(self.request.fingerprint, turn, context.waker()) {
                return Poll::Ready(());
            }
            sleep.as_mut().poll(context)
        })
        .await;
    }
}

impl Drop for QueuePosition<'_> {
    fn drop(&mut self) {
        let request = Request { moment: self.limiter.moment(), ..self.request };
        self.limiter.store.leave(&request, self.id);
    }
}

/// Blocks a thread until a time, or until it is woken.
#[derive(Default)]
struct Alarm {
    /// The time to wake, or `None` for never.
    at: Cell<Option<Instant>>,
}

#[expect(clippy::disallowed_methods, reason = "blocking the thread is what this is for")]
impl Alarm {
    fn sleep(&self, time: Duration) -> impl Future<Output = ()> {
        let at = Instant::now().checked_add(time);
        self.at.set(at);
        poll_fn(move |_| match at {
            Some(at) if Instant::now() >= at => Poll::Ready(()),
            _ => Poll::Pending,
        })
    }

    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut context = Context::from_waker(&waker);
        let mut future = pin!(future);
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            match self.at.get() {
                Some(at) => thread::park_timeout(at.saturating_duration_since(Instant::now())),
                None => thread::park(),
            }
        }
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}
