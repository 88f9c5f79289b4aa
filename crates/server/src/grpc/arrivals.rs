//! Calls that have come in on a connection, and are answered together.

use core::panic::AssertUnwindSafe;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::panic::catch_unwind;
use std::sync::{Arc, Mutex, PoisonError};

use hyper::rt::Executor;

/// Calls that nobody has begun to answer; as many as the connection may have under way at the most.
///
/// With a task for each, other threads are woken for some of them, and what is decided in memory takes
/// less than that. With each answered as it comes, the library writes every answer by itself. So they
/// are kept until all that a client has sent is read, and then answered in a row.
#[derive(Clone, Default)]
pub(super) struct Arrivals(Arc<Mutex<Vec<Call>>>);

type Call = Pin<Box<dyn Future<Output = ()> + Send>>;

impl<F> Executor<F> for Arrivals
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, call: F) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Box::pin(call));
    }
}

impl Arrivals {
    /// Polls a connection, and answers what comes in.
    pub(super) fn poll<C: Future>(
        &self,
        mut connection: Pin<&mut C>,
        context: &mut Context<'_>,
    ) -> Poll<C::Output> {
        loop {
            let polled = connection.as_mut().poll(context);
            if polled.is_ready() || !self.answer() {
                return polled;
            }
        }
    }

    /// Runs every call as far as it gets at once, and leaves what has to wait to a task of its own.
    /// Whether there were any.
    fn answer(&self) -> bool {
        let calls = core::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        let has_any = !calls.is_empty();
        for mut call in calls {
            // Whom to wake is told by the task, which asks anew.
            let mut context = Context::from_waker(Waker::noop());
            // One that panics is dropped, which ends its stream and no other.
            let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(&mut context)));
            if matches!(polled, Ok(Poll::Pending)) {
                tokio::spawn(call);
            }
        }
        has_any
    }
}

#[cfg(test)]
mod tests {
    use core::future::poll_fn;
    use core::pin::pin;
    use core::time::Duration;

    use super::*;

    /// A connection that brings these calls at once, and ends when it is polled after them.
    async fn serve(calls: Vec<Call>) {
        let arrivals = Arrivals::default();
        let mut calls = Some(calls);
        let mut connection = pin!(poll_fn(|_| match calls.take() {
            Some(calls) => {
                for call in calls {
                    arrivals.execute(call);
                }
                Poll::Pending
            }
            None => Poll::Ready(()),
        }));
        poll_fn(|cx| arrivals.poll(connection.as_mut(), cx)).await;
    }

    #[tokio::test]
    async fn what_need_not_wait_is_answered_before_the_connection_is_polled_again() {
        let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
        let call = |number: u32| {
            let tell = tell.clone();
            Box::pin(async move { tell.send(number).unwrap() }) as Call
        };
        serve(vec![call(1), Box::pin(async { panic!("as the test wants it") }), call(2)]).await;
        assert_eq!([told.try_recv(), told.try_recv()], [Ok(1), Ok(2)]);
    }

    #[tokio::test]
    async fn what_has_to_wait_is_answered_later() {
        let (tell, told) = tokio::sync::oneshot::channel();
        serve(vec![Box::pin(async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            tokio::task::yield_now().await;
            tell.send(7).unwrap();
        })])
        .await;
        assert_eq!(told.await, Ok(7));
    }
}
