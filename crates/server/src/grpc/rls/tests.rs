//! Tests of `rls`.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use super::*;

fn poll<T>(call: impl Future<Output = Result<T, Status>>) -> Poll<Result<T, Status>> {
    pin!(isolated(Box::pin(call))).poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_panic_is_an_internal_error_of_the_call() {
    let Poll::Ready(Err(status)) = poll(async { if true { panic!("on purpose") } else { Ok(()) } })
    else {
        panic!("not an error")
    };
    assert_eq!(status.code(), Code::Internal);
    assert!(!status.message().contains("on purpose"));
}

#[test]
fn other_results_are_passed_on() {
    assert!(matches!(poll(async { Ok(1) }), Poll::Ready(Ok(1))));
    assert!(matches!(poll::<()>(core::future::pending()), Poll::Pending));
}
