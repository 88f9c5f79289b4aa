//! Responses from a user's function: the fields of the denial are added to them.
//!
//! What could go wrong: a response without a retry time, so that clients guess; one that a cache
//! stores; a field of the user that is overwritten.

use std::time::Duration;

use http::{Request, Response, StatusCode};
use slidegate::{Clock, Limiter, Policy, Quota};
use slidegate_client::{Pacer, PacingLayer, Random, Settings};
use slidegate_http::{Body, Fields};
use slidegate_tower::{
    Http, Missing, OverloadGuard, OverloadLayer, PeerAddr, RateLimitLayer, Rule,
};
use tokio::time::Instant;
use tower::{Layer, ServiceExt};

use crate::app::{App, behind, clock, from, limiter, send, status};

#[tokio::test]
async fn fields_are_added_to_the_response_of_a_function() {
    let clock = clock();
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(limiter("api", 1, &clock)))
        .answer(|denial| {
            let response = Response::builder().status(denial.status());
            // The response has two fields, one of them repeated.
            let response = response.header("cache-control", "max-age=1").header("x-mine", "1");
            response.header("x-ratelimit-limit", "many").body("no".to_owned()).unwrap()
        })
        .build()
        .unwrap();
    let (_, service) = behind(&layer);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    let denied = send(&service, from("192.0.2.1")).await;
    assert_eq!((denied.status(), denied.body().as_str()), (StatusCode::TOO_MANY_REQUESTS, "no"));
    let headers = denied.headers();
    assert_eq!(headers["retry-after"], "60");
    assert_eq!(headers["ratelimit"], r#""api";r=0;t=60"#);
    assert_eq!(headers["ratelimit-policy"], r#""api";q=1;w=60"#);
    assert_eq!(headers["x-ratelimit-remaining"], "0");
    // Fields that the function set are not replaced.
    assert_eq!(headers.get_all("cache-control").iter().collect::<Vec<_>>(), ["max-age=1"]);
    assert_eq!(headers["x-ratelimit-limit"], "many");
    assert_eq!(headers["x-mine"], "1");
}

#[tokio::test]
async fn denials_without_quotas_are_not_cached() {
    let clock = clock();
    let rule = Rule::new(limiter("api", 1, &clock))
        .key(slidegate_tower::KeyBy::header("x-user"))
        .missing(Missing::Deny);
    let answer = |_: &slidegate_tower::Denial| Response::new("no".to_owned());
    let layer = RateLimitLayer::builder().rule(rule).answer(answer).build().unwrap();
    let (_, service) = behind(&layer);
    let denied = send(&service, from("192.0.2.1")).await;
    assert_eq!(denied.headers()["cache-control"], "no-store");
    assert!(!denied.headers().contains_key("retry-after"), "no wait helps");

    let guard = OverloadGuard::builder("front").concurrency_max(1).build().unwrap();
    let shedding = OverloadLayer::new(guard.clone()).answer(answer).layer(App::default());
    let busy = guard.arrive();
    let shed = send(&shedding, from("192.0.2.1")).await;
    assert_eq!(shed.headers()["cache-control"], "no-store");
    assert!(shed.headers().contains_key("retry-after"));
    drop(busy);
}

// The proxy writes the field.
#[tokio::test]
async fn retry_after_can_be_omitted() {
    let clock = clock();
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(limiter("api", 1, &clock)))
        .fields(Fields::new().retry_after(false))
        .answer_with(Http::new().body(Body::Json))
        .build()
        .unwrap();
    let (_, service) = behind(&layer);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    let denied = send(&service, from("192.0.2.1")).await;
    assert!(!denied.headers().contains_key("retry-after"));
    assert_eq!(denied.headers()["content-type"], "application/json");
    assert_eq!(denied.headers()["cache-control"], "no-store");
}

/// Tokio's time, which advances automatically when every task waits.
#[derive(Debug, Clone, Copy)]
struct TokioClock(Instant);

impl Clock for TokioClock {
    fn now(&self) -> u64 {
        let time = Duration::from_secs(1_700_000_000) + self.0.elapsed();
        u64::try_from(time.as_nanos()).unwrap()
    }
}

// Two independent clients share a key, so some of their requests are denied. Each must learn from
// the response when to send again, so that no denial reaches its caller.
#[tokio::test(start_paused = true)]
async fn pacing_clients_hide_denials_of_a_custom_answer() {
    const REQUESTS: usize = 40;
    let clock = TokioClock(Instant::now());
    let policy = Policy::new("api", Quota::new(10, Duration::from_secs(10)).unwrap()).unwrap();
    let limiter = Limiter::builder(policy).clock(clock).build().unwrap();
    let layer = RateLimitLayer::builder()
        .rule(Rule::new(limiter))
        .answer(|denial| {
            let response = Response::builder().status(denial.status());
            response.body("slow down".to_owned()).unwrap()
        })
        .build()
        .unwrap();
    let app = App::default();
    let server = layer.layer(app.clone());
    let mut workers = Vec::new();
    for seed in 0..2 {
        let settings = Settings::builder().deadline(Duration::from_secs(600)).build().unwrap();
        let pacer = Pacer::builder().clock(clock).random(Random::from_seed(seed));
        let client = PacingLayer::new(pacer.settings(settings).build()).replay_clones();
        let client = client.layer(server.clone());
        for _ in 0..4 {
            let client = client.clone();
            workers.push(tokio::spawn(async move {
                let mut statuses = Vec::new();
                for _ in 0..REQUESTS / 4 {
                    let mut request = Request::new(());
                    *request.uri_mut() = "http://api.example.com/".parse().unwrap();
                    let peer = "192.0.2.1:1".parse().unwrap();
                    request.extensions_mut().insert(PeerAddr(peer));
                    let response = client.clone().oneshot(request).await.unwrap();
                    statuses.push(response.status().as_u16());
                }
                statuses
            }));
        }
    }
    for worker in workers {
        let statuses = worker.await.unwrap();
        assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    }
    assert_eq!(app.served(), 2 * REQUESTS as u64);
}
