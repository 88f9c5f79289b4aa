//! Answers calls where they come in.

use core::task::{Context, Waker};

use hyper::rt::Executor;

/// Runs a call at once as far as it gets, and leaves only what has to wait to a task of its own.
///
/// When the library hands over a call, what its client has sent so far has been read, so one that is
/// decided in memory is answered then and there. With a task for each, another thread would be woken
/// for some of them, and answers would be written one by one instead of all that came in together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Eager;

impl<F> Executor<F> for Eager
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, future: F) {
        let mut future = Box::pin(future);
        // Whom to wake is told by the task, which asks anew.
        let mut context = Context::from_waker(Waker::noop());
        if future.as_mut().poll(&mut context).is_pending() {
            tokio::spawn(future);
        }
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn what_need_not_wait_is_done_at_once() {
        let done = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&done);
        Eager.execute(async move { count.fetch_add(1, Ordering::Relaxed) });
        assert_eq!(done.load(Ordering::Relaxed), 1);
    }

    #[tokio::test]
    async fn what_has_to_wait_is_done_later() {
        let (tell, told) = tokio::sync::oneshot::channel();
        Eager.execute(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::task::yield_now().await;
            tell.send(7)
        });
        assert_eq!(told.await, Ok(7));
    }
}
