//! Waiting in line: first come, first served.

use core::future::Future;
use core::pin::pin;
use core::task::{Context, Poll, Waker};
use core::time::Duration;

use super::{Limiter, WithQuotas};
use crate::cost::Cost;
use crate::decision::Decision;
use crate::error::{Error, ErrorKind};
use crate::key::Key;
use crate::memory::{LineUp, Request};
use crate::receipt::Receipt;
use crate::sync::atomic::Ordering;

impl Limiter {
    /// Takes units as soon as they are free, within `timeout`.
    ///
    /// First come, first served: the units are put on record at once, dated at the moment they
    /// will be free, and everybody who asks later counts them. If that moment is past the timeout
    /// the answer is a denial, at once. Dropping the future gives the place in line back.
    ///
    /// Bound to no runtime: `sleep` is called with how long to sleep, and its future is awaited.
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
    /// When the algorithm is neither a log nor GCRA, or too many callers wait already.
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

    /// Blocks the thread until it has the units: see [`wait_timeout`](Limiter::wait_timeout).
    ///
    /// # Errors
    ///
    /// As [`wait_timeout`](Limiter::wait_timeout).
    pub fn wait_timeout_blocking<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        self.with_policy().wait_timeout_blocking(key, cost, timeout)
    }

    fn waiter(&self) -> Result<Waiter<'_>, Error> {
        if !self.waits {
            let message = format!(
                "{:?} has no line to wait in: use Algorithm::Log or Algorithm::Gcra",
                self.policy.algorithm()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // Counted first, so that the bound holds; nothing else hangs on the order.
        let before = self.waiters.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(self);
        if before < self.waiters_max {
            return Ok(waiter);
        }
        let message =
            format!("{before} callers wait already: raise waiters_max or shed load earlier");
        Err(Error::new(ErrorKind::Waiters, message))
    }
}

impl WithQuotas<'_> {
    /// Takes units as soon as they are available, within `timeout`: see [`Limiter::wait_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::wait_timeout`].
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
        let _waiter = limiter.waiter()?;
        let request = self.request(key, cost.get());
        let end = request.moment.now.saturating_add(limiter.scale.window(timeout));
        let deadline_ticks = if timeout.is_zero() { 0 } else { end - request.moment.now };
        let (decision, mut wait) = match limiter.store.line_up(&request, deadline_ticks) {
            LineUp::Placed(decision, wait) => (decision, wait),
            LineUp::TooLong(decision) => return Ok(limiter.finish(decision)),
        };
        if wait == 0 {
            return Ok(limiter.finish(decision));
        }
        let Some(receipt) = decision.into_receipt() else {
            return Ok(self.peek_cost(key, cost));
        };
        let mut place = Place { limiter, request, receipt: Some(receipt) };
        loop {
            sleep(limiter.scale.duration(wait)).await;
            let moment = limiter.moment();
            let Some(receipt) = &place.receipt else {
                return Ok(self.peek_cost(key, cost));
            };
            let request = Request { moment, ..request };
            match limiter.store.confirm(&request, receipt.tick, receipt.epoch) {
                Some((0, moment)) => {
                    let mut receipt = place.receipt.take();
                    if let Some(receipt) = &mut receipt {
                        receipt.tick = receipt.tick.max(moment.date);
                    }
                    let decision = limiter.store.peek(&request);
                    return Ok(match receipt {
                        Some(receipt) => decision.into_placed(receipt),
                        None => decision,
                    });
                }
                Some((longer, moment)) if moment.now.saturating_add(longer) <= end => wait = longer,
                // The key was reset, or those before were so late that the deadline cannot be met.
                _ => {
                    drop(place);
                    return Ok(limiter.finish(limiter.store.peek(&request).into_denied()));
                }
            }
        }
    }

    /// Blocks the thread until it has the units: see [`Limiter::wait_timeout`].
    ///
    /// # Errors
    ///
    /// As [`Limiter::wait_timeout`].
    pub fn wait_timeout_blocking<K: Key + ?Sized>(
        &self,
        key: &K,
        cost: Cost,
        timeout: Duration,
    ) -> Result<Decision, Error> {
        #[expect(clippy::disallowed_methods, reason = "blocking the thread is what this is for")]
        let sleep = |time| {
            std::thread::sleep(time);
            core::future::ready(())
        };
        // The sleep is over before it is awaited, so the future is ready when first polled.
        let mut wait = pin!(self.wait_timeout(key, cost, timeout, sleep));
        loop {
            let poll = wait.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            if let Poll::Ready(result) = poll {
                return result;
            }
        }
    }
}

/// Counts a caller as waiting for as long as it lives.
struct Waiter<'a>(&'a Limiter);

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        self.0.waiters.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A place in line, given back when it is dropped before its time.
struct Place<'a> {
    limiter: &'a Limiter,
    request: Request<'a>,
    receipt: Option<Receipt>,
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(receipt) = self.receipt.take() {
            let request = Request { moment: self.limiter.moment(), ..self.request };
            self.limiter.store.give_back(&request, receipt.tick, receipt.epoch);
        }
    }
}
