//! Tests of `batch`.

use core::future::poll_fn;
use core::pin::pin;
use core::time::Duration;

use super::*;

/// A connection that receives these calls at once and ends at the next poll.
async fn serve(calls: Vec<Call>) {
    let executor = BatchExecutor::default();
    let mut calls = Some(calls);
    let mut connection = pin!(poll_fn(|_| match calls.take() {
        Some(calls) => {
            for call in calls {
                executor.execute(call);
            }
            Poll::Pending
        }
        None => Poll::Ready(()),
    }));
    poll_fn(|cx| executor.poll(connection.as_mut(), cx)).await;
}

#[tokio::test]
async fn ready_calls_run_before_the_connection_is_polled_again() {
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let call = |number: u32| {
        let sender = sender.clone();
        Box::pin(async move { sender.send(number).unwrap() }) as Call
    };
    serve(vec![call(1), Box::pin(async { panic!("as the test wants it") }), call(2)]).await;
    assert_eq!([receiver.try_recv(), receiver.try_recv()], [Ok(1), Ok(2)]);
}

#[tokio::test]
async fn pending_calls_finish_later() {
    let (sender, receiver) = tokio::sync::oneshot::channel();
    serve(vec![Box::pin(async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        tokio::task::yield_now().await;
        sender.send(7).unwrap();
    })])
    .await;
    assert_eq!(receiver.await, Ok(7));
}
