//! Waiting, shadow mode, canary, candidates, observers and failures.
//!
//! What could go wrong: a wait without end; a shadow policy that denies; a canary that changes its
//! keys; an observer or a user's function that fails a request; a failed store that fails all
//! requests, or whose denial blames the client.

use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::app::{behind, clock, from, get, limiter, send, status, with};
use crate::remote::Remote;
use slidegate::{FailureMode, Limiter, ManualClock, Mode, Policy, Quota};
use slidegate_tower::{
    Count, Gate, KeyBy, Missing, Observation, Observer, RateLimitLayer, RateLimitLayerBuilder,
    Rule, Sleep, WaitOptions,
};
use tower::{Service, ServiceExt};

/// The observations as text.
#[derive(Debug, Default)]
struct Notes(Mutex<Vec<String>>);

impl Observer for Notes {
    fn decided(&self, observation: &Observation<'_>) {
        let gate = observation.gate;
        let mut note = format!("{} {}", gate.name(), observation.outcome.name());
        if let (Some(name), Some(denies)) = (gate.candidate_name(), observation.candidate_denies) {
            write!(note, ", {name} {}", if denies { "denied" } else { "allowed" }).unwrap();
        }
        if observation.is_degraded {
            note += ", degraded";
        }
        if observation.has_waited {
            write!(note, ", waited {:?}", observation.took).unwrap();
        }
        self.0.lock().unwrap().push(note);
    }
}

impl Notes {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn policy(name: &str, limit: u32) -> slidegate::PolicyBuilder {
    Policy::builder(name).quota(Quota::per_minute(limit))
}

fn built(policy: slidegate::PolicyBuilder, clock: &ManualClock) -> Limiter {
    Limiter::builder(policy.build().unwrap()).clock(clock.clone()).build().unwrap()
}

fn waiting(clock: &ManualClock, time_max: u64) -> WaitOptions {
    let clock = clock.clone();
    let sleep = Sleep::new(move |time| {
        clock.advance(time);
        async {}
    });
    WaitOptions::new(Duration::from_secs(time_max), sleep)
}

fn builder(gate: Rule) -> RateLimitLayerBuilder {
    RateLimitLayer::builder().rule(gate)
}

#[tokio::test]
async fn a_waiter_is_served_when_units_are_available() {
    let clock = clock();
    let notes = Arc::new(Notes::default());
    let gate = Rule::new(limiter("api", 1, &clock));
    let layer = builder(gate)
        .wait(waiting(&clock, 60))
        .clock(clock.clone())
        .observer(Arc::clone(&notes))
        .build()
        .unwrap();
    let (app, service) = behind(&layer);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(app.served(), 2);
    assert_eq!(notes.take(), ["api allowed", "api allowed, waited 60s"]);
}

// Tokio's clock jumps to the next timer whenever all tasks wait.
#[tokio::test(start_paused = true)]
async fn tokio_timers_wake_a_waiter() {
    let clock = clock();
    let ticking = clock.clone();
    tokio::spawn(async move {
        let second = Duration::from_secs(1);
        loop {
            tokio::time::sleep(second).await;
            ticking.advance(second);
        }
    });
    let waiting = WaitOptions::new(Duration::from_secs(100), Sleep::tokio());
    let gate = Rule::new(limiter("api", 1, &clock));
    let (app, service) = behind(&builder(gate).wait(waiting).build().unwrap());
    for _ in 0..3 {
        assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    }
    assert_eq!(app.served(), 3);
}

#[tokio::test]
async fn a_wait_that_would_be_too_long_is_denied_immediately() {
    let clock = clock();
    let gate = Rule::new(limiter("api", 1, &clock));
    let (_, service) = behind(&builder(gate).wait(waiting(&clock, 59)).build().unwrap());
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    // The clock did not advance: no request slept.
    assert_eq!(send(&service, from("192.0.2.1")).await.headers()["retry-after"], "60");
}

#[tokio::test]
async fn tiers_several_gates_and_other_algorithms_wait_too() {
    let clock = clock();
    let gate = Gate::builder(limiter("tiered", 1, &clock));
    let gate = gate.tier("double", [Quota::per_minute(2)]).build().unwrap();
    let tier = gate.tier("double");
    let tiered = Rule::new(gate).tier_by(move |_| tier);
    let counter = policy("counter", 2).algorithm(slidegate::Algorithm::Fixed);
    let layer = builder(tiered)
        .rule(Rule::new(built(counter, &clock)))
        .wait(waiting(&clock, 120))
        .build()
        .unwrap();
    let (app, service) = behind(&layer);
    for _ in 0..6 {
        assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    }
    assert_eq!(app.served(), 6);
}

#[tokio::test]
async fn waiters_are_bounded_and_a_cancelled_wait_takes_no_units() {
    let clock = clock();
    let never = Sleep::new(|_| std::future::pending());
    let waiting = WaitOptions::new(Duration::from_secs(60), never).waiters_max(1);
    let gate = Rule::new(limiter("api", 1, &clock));
    let (_, service) = behind(&builder(gate).wait(waiting).build().unwrap());
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);

    let mut first = service.clone();
    let mut first = Box::pin(first.ready().await.unwrap().call(from("192.0.2.1")));
    let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(first.as_mut().poll(cx)));
    assert!(poll.await.is_pending());
    assert_eq!(status(&service, from("192.0.2.1")).await, 429, "another request waits");
    drop(first);
    let mut second = service.clone();
    let mut second = Box::pin(second.ready().await.unwrap().call(from("192.0.2.1")));
    let poll = std::future::poll_fn(|cx| std::task::Poll::Ready(second.as_mut().poll(cx)));
    assert!(poll.await.is_pending(), "the place of the first is free again");
}

#[tokio::test]
async fn shadow_mode_allows_and_reports() {
    let clock = clock();
    let notes = Arc::new(Notes::default());
    let limiter = built(policy("api", 1).mode(Mode::Shadow), &clock);
    let gate = Rule::new(limiter).key(KeyBy::header("x-user")).missing(Missing::Deny);
    let (_, service) = behind(&builder(gate).observer(Arc::clone(&notes)).build().unwrap());
    for _ in 0..2 {
        let response = send(&service, with("x-user", "alice")).await;
        assert_eq!(response.status(), 200);
        // A client that slows down for a limit that is not enforced would distort the measurement.
        assert!(!response.headers().contains_key("ratelimit"));
    }
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(notes.take(), ["api allowed", "api shadow_denied", "api shadow_denied"]);
}

#[tokio::test]
async fn a_canary_is_enforced_for_the_same_share_of_keys() {
    let clock = clock();
    let gate = |percent| {
        let gate = Gate::builder(limiter("api", 1, &clock)).enforce_percent(percent);
        let rule = Rule::new(gate.build().unwrap()).key(KeyBy::header("x-user"));
        behind(&builder(rule).build().unwrap()).1
    };
    let (ten, thirty, none) = (gate(10), gate(30), gate(0));
    let mut denied = [0; 3];
    for user in 0..300 {
        let user = format!("user-{user}");
        let mut was_denied = false;
        for (count, service) in denied.iter_mut().zip([&ten, &thirty, &none]) {
            assert_eq!(status(service, with("x-user", &user)).await, 200);
            let second = status(service, with("x-user", &user)).await;
            let third = status(service, with("x-user", &user)).await;
            assert_eq!(second, third, "a key keeps its mode");
            let is_denied = second == 429;
            // A key that is enforced at 10 % is enforced at 30 %, but not at 0 %.
            assert!(is_denied || !was_denied || std::ptr::eq(service, &raw const none));
            was_denied = is_denied;
            *count += usize::from(is_denied);
        }
    }
    assert!((15..=50).contains(&denied[0]), "{denied:?}");
    assert!((60..=120).contains(&denied[1]), "{denied:?}");
    assert_eq!(denied[2], 0);
}

#[tokio::test]
async fn a_candidate_is_evaluated_and_never_denies() {
    let clock = clock();
    let notes = Arc::new(Notes::default());
    let gate = Gate::builder(limiter("live", 3, &clock)).candidate(limiter("next", 1, &clock));
    let gate = Rule::new(gate.build().unwrap()).count(Count::failed());
    let (_, service) = behind(&builder(gate).observer(Arc::clone(&notes)).build().unwrap());
    // Units that the live policy refunds, the candidate refunds too.
    for path in ["/200", "/200", "/401", "/401", "/401", "/401"] {
        status(&service, get(path)).await;
    }
    assert_eq!(
        notes.take(),
        [
            "live allowed, next allowed",
            "live allowed, next allowed",
            "live allowed, next allowed",
            "live allowed, next denied",
            "live allowed, next denied",
            "live denied, next denied",
        ]
    );
}

// An alert that names the wrong policy would be misleading.
#[tokio::test]
async fn names_the_policy_that_denied() {
    let clock = clock();
    let (store, _, _) = remote(policy("remote", 9), &clock);
    for layer in [
        // In one step, and one after the other.
        builder(Rule::new(limiter("wide", 9, &clock))),
        builder(Rule::new(store)),
    ] {
        let notes = Arc::new(Notes::default());
        let layer =
            layer.rule(Rule::new(limiter("narrow", 1, &clock))).observer(Arc::clone(&notes));
        let (_, service) = behind(&layer.build().unwrap());
        assert_eq!(status(&service, from("192.0.2.1")).await, 200);
        notes.take();
        assert_eq!(status(&service, from("192.0.2.1")).await, 429);
        let noted = notes.take();
        assert!(noted[0].ends_with(" denied_by_other"), "{noted:?}");
        assert_eq!(noted[1], "narrow denied");
    }
}

#[tokio::test]
async fn a_panicking_observer_does_not_fail_the_request() {
    #[derive(Debug)]
    struct PanickingObserver(AtomicUsize);
    impl Observer for PanickingObserver {
        fn decided(&self, observation: &Observation<'_>) {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert_eq!(observation.gate.mode(), "enforce");
            panic!("{:?}", observation.outcome);
        }
    }
    let clock = clock();
    let angry = Arc::new(PanickingObserver(AtomicUsize::new(0)));
    let gate = Rule::new(limiter("api", 1, &clock));
    let (_, service) = behind(&builder(gate).observer(Arc::clone(&angry)).build().unwrap());
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(status(&service, from("192.0.2.1")).await, 429);
    assert_eq!(angry.0.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn the_failure_mode_decides_when_a_function_panics() {
    let clock = clock();
    for (mode, expected, note) in [
        (FailureMode::Allow, 200, "api allowed, degraded"),
        (FailureMode::Deny, 503, "api store_failed, degraded"),
    ] {
        let notes = Arc::new(Notes::default());
        let gate = Rule::new(built(policy("api", 9).failure_mode(mode), &clock))
            .key(KeyBy::with(|head| -> Option<String> { panic!("{head:?}") }));
        let (_, service) = behind(&builder(gate).observer(Arc::clone(&notes)).build().unwrap());
        assert_eq!(status(&service, from("192.0.2.1")).await, expected);
        assert_eq!(notes.take(), [note]);
    }
}

fn remote(
    policy: slidegate::PolicyBuilder,
    clock: &ManualClock,
) -> (Gate, Arc<Limiter>, Arc<AtomicBool>) {
    let (limiter, is_down) = (Arc::new(built(policy, clock)), Arc::new(AtomicBool::new(false)));
    let store = Remote { limiter: Arc::clone(&limiter), is_down: Arc::clone(&is_down) };
    (Gate::builder(store).build().unwrap(), limiter, is_down)
}

#[tokio::test]
async fn a_remote_store_decides_and_gets_refunds() {
    let clock = clock();
    let (store, limiter, _) = remote(policy("login", 2), &clock);
    let gate = Rule::new(store).count(Count::failed());
    let (_, service) = behind(&builder(gate).build().unwrap());
    for _ in 0..5 {
        let response = send(&service, get("/200")).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], "2");
    }
    assert_eq!(limiter.stats().keys, 1);
    assert_eq!(status(&service, get("/401")).await, 401);
    assert_eq!(status(&service, get("/401")).await, 401);
    assert_eq!(status(&service, get("/200")).await, 429);
}

#[tokio::test]
async fn different_stores_take_all_or_nothing() {
    let clock = clock();
    let (store, _, _) = remote(policy("shared", 100), &clock);
    let layer =
        builder(Rule::new(store)).rule(Rule::new(limiter("here", 1, &clock))).build().unwrap();
    let (_, service) = behind(&layer);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    for _ in 0..5 {
        let response = send(&service, from("192.0.2.1")).await;
        assert_eq!(response.status(), 429);
        let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(body["violated-policies"], serde_json::json!(["here"]));
    }
    clock.advance(Duration::from_secs(59));
    let response = send(&service, from("192.0.2.2")).await;
    assert_eq!(response.headers()["ratelimit"], r#""shared";r=99;t=60, "here";r=0;t=60"#);
    clock.advance(Duration::from_secs(1));
    // One request of the first address counts, not six.
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.headers()["ratelimit"], r#""shared";r=99;t=60, "here";r=0;t=60"#);
}

#[tokio::test]
async fn the_failure_mode_decides_when_a_store_fails() {
    let clock = clock();
    for (mode, expected) in [
        (FailureMode::Allow, ["200 down allowed, degraded"; 3]),
        (FailureMode::Deny, ["503 down store_failed, degraded"; 3]),
        (
            FailureMode::Local,
            [
                "200 down allowed, degraded",
                "200 down allowed, degraded",
                "429 down denied, degraded",
            ],
        ),
    ] {
        let notes = Arc::new(Notes::default());
        let (store, _, is_down) = remote(policy("down", 2).failure_mode(mode), &clock);
        let layer = builder(Rule::new(store)).observer(Arc::clone(&notes)).build().unwrap();
        let (_, service) = behind(&layer);
        is_down.store(true, Ordering::Relaxed);
        for expected in expected {
            let response = send(&service, from("192.0.2.1")).await;
            let seen = format!("{} {}", response.status().as_u16(), notes.take().join("; "));
            assert_eq!(seen, expected, "{mode:?}");
            if response.status() == 503 {
                assert_eq!(response.headers()["retry-after"], "1");
                assert!(!response.body().contains("quota"), "{}", response.body());
            }
        }
        // It recovers without help.
        is_down.store(false, Ordering::Relaxed);
        assert_eq!(status(&service, from("192.0.2.9")).await, 200);
        assert_eq!(notes.take(), ["down allowed"]);
    }
}

// The store has no record of units that were taken without it.
#[tokio::test]
async fn units_of_the_local_limiter_are_refunded_locally() {
    let clock = clock();
    let (store, limiter, is_down) =
        remote(policy("login", 2).failure_mode(FailureMode::Local), &clock);
    let (_, service) = behind(&builder(Rule::new(store).count(Count::failed())).build().unwrap());
    is_down.store(true, Ordering::Relaxed);
    for _ in 0..5 {
        let response = send(&service, get("/200")).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["x-ratelimit-remaining"], "2");
    }
    for expected in [401, 401, 429] {
        assert_eq!(status(&service, get("/401")).await, expected);
    }
    assert_eq!(limiter.stats().keys, 0);
}

#[tokio::test]
async fn keys_that_may_be_hashed_need_a_secret_in_a_shared_store() {
    let clock = clock();
    let (store, _, _) = remote(policy("shared", 1), &clock);
    let gate = || Rule::new(store.clone()).key(KeyBy::header("x-api-key"));
    let refusal = builder(gate()).build().unwrap_err().to_string();
    assert!(refusal.contains("RateLimitLayerBuilder::secret"), "{refusal}");
    assert!(builder(Rule::new(store.clone())).build().is_ok(), "addresses need none");
    // Two processes with one secret count one client together.
    let one = behind(&builder(gate()).secret([7; 16]).build().unwrap()).1;
    let two = behind(&builder(gate()).secret([7; 16]).build().unwrap()).1;
    assert_eq!(status(&one, with("x-api-key", "k")).await, 200);
    assert_eq!(status(&two, with("x-api-key", "k")).await, 429);
}
