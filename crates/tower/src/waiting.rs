//! Requests that wait for units instead of being denied.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;
use std::sync::Arc;

use crate::sleep::Sleep;

/// Lets requests wait for units, for a bounded time and in bounded number, instead of denying
/// them.
///
/// With one gate that counts in memory by a log or GCRA, waiting is first come, first served. In
/// all other cases a request asks again when its `retry_after` is over; who is first then is first.
/// A request that would have to wait longer than it may is denied at once, and so is one too many.
#[derive(Debug, Clone)]
pub struct Waiting {
    time_max: Duration,
    waiters_max: usize,
    sleep: Sleep,
}

const WAITERS_MAX: usize = 1024;

impl Waiting {
    /// For at most `time_max` each, at most 1024 at a time unless told otherwise.
    pub fn new(time_max: Duration, sleep: Sleep) -> Self {
        Self { time_max, waiters_max: WAITERS_MAX, sleep }
    }

    /// At most so many at a time.
    #[must_use]
    pub fn waiters_max(mut self, waiters: usize) -> Self {
        self.waiters_max = waiters;
        self
    }

    pub(crate) fn time_max(&self) -> Duration {
        self.time_max
    }

    pub(crate) fn sleep(&self) -> &Sleep {
        &self.sleep
    }

    /// A place among those who wait, while there is one.
    pub(crate) fn enter(&self, waiters: &Arc<AtomicUsize>) -> Option<Waiter> {
        // Counted first, so that the bound holds; nothing else hangs on the order.
        let before = waiters.fetch_add(1, Ordering::Relaxed);
        let waiter = Waiter(Arc::clone(waiters));
        (before < self.waiters_max).then_some(waiter)
    }
}

/// Counts a request as waiting for as long as it lives.
#[derive(Debug)]
pub(crate) struct Waiter(Arc<AtomicUsize>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
