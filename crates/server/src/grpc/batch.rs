//! Runs the calls of a connection in batches.
//!
//! With a task per call, which is hyper's default, a call wakes another thread, and that takes
//! longer than a decision in memory. If each call ran as soon as it was read, h2 would write each
//! reply separately. So calls are collected until everything that the client sent is read, and then
//! run one after the other. `docs/design/0008-fast-paths.md` has the measurements.

use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::rt::Executor;

/// An executor that collects calls. Their number is bounded by the connection's maximum of streams.
#[derive(Clone, Default)]
pub(super) struct BatchExecutor(Arc<Mutex<Vec<Call>>>);

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F> Executor<F> for BatchExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(call));
    }
}

impl BatchExecutor {
    /// Polls a connection and runs the calls that it received.
    pub(super) fn poll<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            let polled = connection.as_mut().poll(context);
            if polled.is_ready() || !self.run() {
                return polled;
            }
        }
    }

    /// Polls every collected call once, and spawns those that are not ready. Returns `false` if
    /// there were none.
    fn run(&self) -> bool {
        let calls = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let had_calls = !calls.is_empty();
        for mut call in calls {
            // A call that is not ready registers its waker when the new task polls it.
            let mut context = Context::from_waker(Waker::noop());
            // A call that panics is dropped, which resets its stream only.
            let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context)));
            if matches!(polled, Ok(Poll::Pending)) {
                tokio::spawn(call);
            }
        }
        had_calls
    }
}

#[cfg(test)]
mod tests;
