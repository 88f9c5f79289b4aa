//! More calls than there is room for.
//!
//! What could go wrong: a call that is shed without a word when to come again, room that is not
//! given back, or a health check that finds a busy server dead.

use slidegate_server::spec::Unit;
use slidegate_testkit::server::{PATIENCE, poll_async};
use slidegate_tower::{Admission, Arrival, OverloadGuard};
use tokio::time::timeout;
use tonic::Code;
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;
use tonic_types::StatusExt;

use super::grpc::{OK, ask, channel, user};
use super::served::{Served, users};

/// The only place there is.
fn take(guard: &OverloadGuard) -> Admission {
    let Arrival::Admitted(pass) = guard.arrive() else { panic!("there is room") };
    pass
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_without_room_is_unavailable_with_a_time_to_retry_and_others_go_on() {
    let guard = OverloadGuard::builder("data").concurrency_max(1).queue_max(0).build().unwrap();
    let served = Served::guarded(&users(9, Unit::Minute), &guard).await;
    let channel = channel(&served).await;
    assert_eq!(ask(&channel, user("alice")).await.unwrap().overall_code, OK);
    assert_eq!((guard.stats().serving, guard.stats().admitted), (0, 1));

    let busy = take(&guard);
    let shed = ask(&channel, user("alice")).await.unwrap_err();
    assert_eq!(shed.code(), Code::Unavailable);
    let retry = shed.get_details_retry_info().unwrap();
    assert!(retry.retry_delay.is_some_and(|delay| !delay.is_zero()), "{retry:?}");
    // Health checks are answered even so.
    let health = HealthCheckRequest { service: String::new() };
    let health = HealthClient::new(channel.clone()).check(health).await.unwrap().into_inner();
    assert_eq!(health.status, 1);

    drop(busy);
    let after = ask(&channel, user("alice")).await.unwrap();
    // What was shed was not counted.
    assert_eq!((after.overall_code, after.statuses[0].limit_remaining), (OK, 7));
    assert_eq!((guard.stats().shed, guard.stats().serving), (1, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_queued_is_answered_when_there_is_room() {
    let guard = OverloadGuard::builder("data").concurrency_max(1).delay_max(PATIENCE).build();
    let guard = guard.unwrap();
    let served = Served::guarded(&users(9, Unit::Minute), &guard).await;
    let channel = channel(&served).await;
    let busy = take(&guard);
    let call = tokio::spawn(async move { ask(&channel, user("alice")).await });
    let queued = poll_async("the call", async || (guard.stats().queued > 0).then_some(()));
    queued.await.unwrap();
    drop(busy);
    let answered = timeout(PATIENCE, call).await.unwrap().unwrap().unwrap();
    assert_eq!(answered.overall_code, OK);
    assert_eq!((guard.stats().queued, guard.stats().serving), (0, 0));
}
