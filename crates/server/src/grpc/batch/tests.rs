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
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel();
    let call = |number: u32| {
        let tell = tell.clone();
        Box::pin(async move { tell.send(number).unwrap() }) as Call
    };
    serve(vec![call(1), Box::pin(async { panic!("as the test wants it") }), call(2)]).await;
    assert_eq!([told.try_recv(), told.try_recv()], [Ok(1), Ok(2)]);
}

#[tokio::test]
async fn pending_calls_finish_later() {
    let (tell, told) = tokio::sync::oneshot::channel();
    serve(vec![Box::pin(async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        tokio::task::yield_now().await;
        tell.send(7).unwrap();
    })])
    .await;
    assert_eq!(told.await, Ok(7));
}
