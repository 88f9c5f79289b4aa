//! A call that may panic, and nobody else with it.

use core::pin::Pin;
use core::task::{Context, Poll, ready};
use std::panic::{AssertUnwindSafe, catch_unwind};

use tonic::Status;

/// A future whose panics become errors: neither the process nor the other calls of the connection
/// end with it.
pub(super) struct Guarded<F>(Option<Pin<Box<F>>>);

impl<F> Guarded<F> {
    pub(super) fn new(call: F) -> Self {
        Self(Some(Box::pin(call)))
    }
}

impl<T, F: Future<Output = Result<T, Status>>> Future for Guarded<F> {
    type Output = Result<T, Status>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Some(call) = self.0.as_mut() else { return Poll::Ready(Err(panicked())) };
        // Nothing of a call outlives it but what locks and atomics keep whole.
        let polled = catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(context)));
        let result = match polled {
            Ok(polled) => ready!(polled),
            Err(_) => Err(panicked()),
        };
        self.0 = None;
        Poll::Ready(result)
    }
}

fn panicked() -> Status {
    Status::internal("the call failed; others are not affected")
}

#[cfg(test)]
mod tests {
    use core::pin::pin;
    use core::task::Waker;

    use super::*;

    fn poll<T>(call: impl Future<Output = Result<T, Status>>) -> Poll<Result<T, Status>> {
        pin!(Guarded::new(call)).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn a_panic_is_an_error_of_the_call() {
        let Poll::Ready(Err(status)) =
            poll(async { if true { panic!("on purpose") } else { Ok(()) } })
        else {
            panic!("not an error")
        };
        assert_eq!(status.code(), tonic::Code::Internal);
        assert!(!status.message().contains("on purpose"));
    }

    #[test]
    fn everything_else_is_as_it_was() {
        assert!(matches!(poll(async { Ok(1) }), Poll::Ready(Ok(1))));
        assert!(matches!(poll::<()>(core::future::pending()), Poll::Pending));
    }
}
