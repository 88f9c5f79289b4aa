//! Requests that wait in a queue behind gates.
//!
//! What could go wrong: requests of closed connections keep their places; with several gates, a
//! later request takes the units that an earlier one waits for.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::app::{behind, clock, from, limiter, send, status, with};
use http::Response;
use slidegate::{Clock, Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{KeyBy, RateLimitLayer, Rule, Sleep, WaitOptions};
use tower::ServiceExt;

/// Sleeps until the clock reaches the time.
fn waiting(clock: &ManualClock, time_max: u64) -> WaitOptions {
    let clock = clock.clone();
    let sleep = Sleep::new(move |time: Duration| {
        let (clock, until) = (clock.clone(), clock.now() + u64::try_from(time.as_nanos()).unwrap());
        std::future::poll_fn(
            move |_| {
                if clock.now() >= until { Poll::Ready(()) } else { Poll::Pending }
            },
        )
    });
    WaitOptions::new(Duration::from_secs(time_max), sleep)
}

type Task = Pin<Box<dyn Future<Output = Response<String>>>>;

/// Returns the status, if the response is ready.
fn poll(task: &mut Task) -> Option<u16> {
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(response) => Some(response.status().as_u16()),
        Poll::Pending => None,
    }
}

// Ten per second, and the first 90 clients close their connections: the last ten come next.
#[tokio::test]
async fn closed_connections_move_the_queue_up() {
    let clock = clock();
    let policy = Policy::new("api", Quota::per_second(10)).unwrap();
    let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
    let layer = RateLimitLayer::builder().rule(Rule::new(limiter)).wait(waiting(&clock, 60));
    let (app, service) = behind(&layer.build().unwrap());
    for _ in 0..10 {
        assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    }
    let task = |_| -> Task {
        let service = service.clone();
        Box::pin(async move { service.oneshot(from("192.0.2.1")).await.unwrap() })
    };
    let mut tasks: Vec<Task> = (0..100).map(task).collect();
    assert!(tasks.iter_mut().all(|task| poll(task).is_none()));
    clock.advance(Duration::from_millis(100));
    drop(tasks.drain(..90));
    clock.advance(Duration::from_millis(900));
    assert!(tasks.iter_mut().all(|task| poll(task) == Some(200)));
    assert_eq!(app.served(), 20);
}

// A request that waits for one gate of several must not lose its place to a later one.
#[tokio::test]
async fn a_request_behind_two_gates_keeps_its_place() {
    let clock = clock();
    let by_user = Rule::new(limiter("user", 9, &clock)).key(KeyBy::header("x-user"));
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(limiter("address", 1, &clock)))
        .rule(by_user)
        .wait(waiting(&clock, 120));
    let (_, service) = behind(&layer.build().unwrap());
    assert_eq!(send(&service, with("x-user", "alice")).await.status(), 200);
    let task = |user: &'static str| -> Task {
        let service = service.clone();
        Box::pin(async move { service.oneshot(with("x-user", user)).await.unwrap() })
    };
    let mut first = task("bob");
    assert_eq!(poll(&mut first), None);
    clock.advance(Duration::from_secs(60));
    let mut second = task("carol");
    assert_eq!(poll(&mut second), None, "overtakes the first");
    assert_eq!(poll(&mut first), Some(200));
    clock.advance(Duration::from_secs(60));
    assert_eq!(poll(&mut second), Some(200));
}

// Units taken from one gate are refunded when another denies, and the next waiter gets them.
#[tokio::test]
async fn a_request_denied_by_the_second_gate_yields_to_the_next() {
    let clock = clock();
    let by_user = Rule::new(limiter("user", 1, &clock)).key(KeyBy::header("x-user"));
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(limiter("address", 2, &clock)))
        .rule(by_user)
        .wait(waiting(&clock, 120));
    let (_, service) = behind(&layer.build().unwrap());
    let task = |user: &'static str| -> Task {
        let service = service.clone();
        Box::pin(async move { service.oneshot(with("x-user", user)).await.unwrap() })
    };
    let mut served = [task("alice"), task("bob")];
    assert!(served.iter_mut().all(|task| poll(task) == Some(200)));
    // Both wait for the address first. At 60 s only one of alice's passes the second gate.
    let mut waits = [task("alice"), task("alice"), task("carol")];
    assert!(waits.iter_mut().all(|task| poll(task).is_none()));
    clock.advance(Duration::from_secs(60));
    assert_eq!(poll(&mut waits[0]), Some(200));
    assert_eq!(poll(&mut waits[1]), None, "alice has no second unit");
    assert_eq!(poll(&mut waits[2]), Some(200), "the address has a unit for carol");
    clock.advance(Duration::from_secs(60));
    assert_eq!(poll(&mut waits[1]), Some(200));
}
