//! Tests of `batcher`.

use core::time::Duration;

use slidegate::{Algorithm, Quota};

use super::*;
use crate::script::{Op, ScriptLimits};

fn limits(quotas: &[Quota]) -> ScriptLimits {
    let tick = Duration::from_millis(1);
    ScriptLimits::new(quotas, Algorithm::Log, tick, tick).unwrap()
}

// A batch has a whole deadline, so a check with less time is sent alone.
#[tokio::test]
async fn only_plain_checks_with_time_left_are_batched() {
    let redis = nowhere();
    let quota = Quota::per_minute(5);
    let (limits, wide) = (limits(&[quota]), limits(&[quota, Quota::per_hour(9)]));
    let check = KeyOp { limits: &limits, op: Op::Check { cost: 1 } };
    assert!(matches!(redis.call_in_batch(b"k", &check, seconds(8)).await, Some(Err(_))));
    assert!(redis.call_in_batch(b"k", &check, seconds(5)).await.is_none(), "in a hurry");
    let peek = KeyOp { op: Op::Peek { cost: 1 }, ..check };
    assert!(redis.call_in_batch(b"k", &peek, seconds(8)).await.is_none(), "only looks");
    let several = KeyOp { limits: &wide, ..check };
    assert!(redis.call_in_batch(b"k", &several, seconds(8)).await.is_none(), "two quotas");
}

// One runtime stops while its check is the first of a queue: the others must not wait for it.
#[tokio::test]
async fn stalled_queue_is_sent_by_the_next_check() {
    let redis = nowhere();
    let limits = limits(&[Quota::per_minute(5)]);
    let check = KeyOp { limits: &limits, op: Op::Check { cost: 1 } };
    let (reply, stuck) = oneshot::channel();
    let (name, argument) = (b"k".to_vec(), check.argument(true));
    let queue = redis.shared.batcher.queue(ScriptKind::Log).unwrap();
    let queued = Instant::now().checked_sub(Duration::from_secs(5)).unwrap();
    queue.pending.lock().push(PendingCheck { name, argument, queued, reply });
    let began = Instant::now();
    let result = redis.call_in_batch(b"k", &check, seconds(8)).await;
    assert!(matches!(result, Some(Err(_))));
    assert!(began.elapsed() < Duration::from_secs(7), "waited for its deadline");
    assert!(stuck.await.is_ok_and(|result| result.is_err()), "the stalled check was sent too");
}

/// A port on which no server listens.
fn nowhere() -> Redis {
    let redis = Redis::single("redis://127.0.0.1:1").unwrap();
    redis.deadline(Duration::from_secs(8)).build().unwrap()
}

fn seconds(left: u64) -> Instant {
    Instant::now() + Duration::from_secs(left)
}
