//! Tests of `rls`.

use core::pin::pin;
use core::task::{Context, Poll, Waker};

use super::*;

fn poll<T>(
    connections: &Arc<Connections>,
    call: impl Future<Output = Result<T, Status>>,
) -> Poll<Result<T, Status>> {
    pin!(isolated(Arc::clone(connections), pin!(call)))
        .poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_panic_is_an_internal_error_of_the_call() {
    let connections = Connections::new("grpc", 1);
    let call = async { if true { panic!("on purpose") } else { Ok(()) } };
    let Poll::Ready(Err(status)) = poll(&connections, call) else { panic!("not an error") };
    assert_eq!(status.code(), Code::Internal);
    assert!(!status.message().contains("on purpose"));
    assert_eq!(connections.panics.get(), 1);
}

#[test]
fn other_results_are_passed_on() {
    assert!(matches!(poll(&Arc::default(), async { Ok(1) }), Poll::Ready(Ok(1))));
    assert!(matches!(poll::<()>(&Arc::default(), core::future::pending()), Poll::Pending));
}
