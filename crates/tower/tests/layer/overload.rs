//! The overload guard, with a test clock.
//!
//! What could go wrong: usual traffic that is rejected; a flood that is admitted, or that is
//! admitted after a minute because it became the baseline; an unbounded queue; a guard that leaks
//! its passes.

use std::sync::Arc;
use std::time::Duration;

use crate::app::{App, clock, from, send, status};
use slidegate::ManualClock;
use slidegate_tower::{
    Arrival, Metrics, OverloadGuard, OverloadGuardBuilder, OverloadLayer, Sleep,
};
use tower::{Layer, Service, ServiceExt};

fn guard(clock: &ManualClock) -> OverloadGuardBuilder {
    OverloadGuard::builder("front").warm_up(10).floor(10).clock(clock.clone())
}

/// Sends the requests of one second, evenly. Returns how many were admitted, queued and rejected.
fn second(guard: &OverloadGuard, clock: &ManualClock, rate: u32) -> [u32; 3] {
    let mut counts = [0; 3];
    for _ in 0..rate {
        match guard.arrive() {
            Arrival::Admitted(_) => counts[0] += 1,
            Arrival::Queued(_) => counts[1] += 1,
            Arrival::Shed(after) => {
                assert!(after > Duration::ZERO && after < Duration::from_secs(2), "{after:?}");
                counts[2] += 1;
            }
        }
        clock.advance(Duration::from_nanos(1_000_000_000 / u64::from(rate)));
    }
    counts
}

#[test]
fn a_flood_is_limited_to_twice_the_usual_traffic() {
    let clock = clock();
    let guard = guard(&clock).build().unwrap();
    // The warm-up, and traffic that doubles for a while.
    for rate in [100; 12].into_iter().chain([150, 180, 120, 100, 90, 100]) {
        assert_eq!(second(&guard, &clock, rate), [rate, 0, 0], "{:?}", guard.stats());
    }
    assert!(guard.stats().is_warm);
    let usual = guard.stats().baseline;
    assert!((95..=115).contains(&usual), "{usual}");

    // Ten times as many. The first second has the whole bucket, later ones only the refill.
    let first = second(&guard, &clock, 1000);
    assert!(first[0] < 520 && first[2] > 400, "{first:?}");
    for _ in 0..5 {
        let [admitted, queued, shed] = second(&guard, &clock, 1000);
        assert!((180..=330).contains(&(admitted + queued)), "{admitted} {queued} {shed}");
        assert!(queued > 0, "a few are queued before they are shed");
        assert!(shed > 650, "{shed}");
    }
    // The baseline rises no faster than allowed traffic: (17/16)^6 = 1.44.
    assert!(guard.stats().baseline <= usual * 3 / 2, "{:?}", guard.stats());
    // When the flood ends, requests are admitted again.
    clock.advance(Duration::from_secs(2));
    assert_eq!(second(&guard, &clock, 100), [100, 0, 0]);
}

#[test]
fn delays_grow_until_requests_are_shed() {
    let clock = clock();
    let guard = guard(&clock).build().unwrap();
    for _ in 0..11 {
        second(&guard, &clock, 100);
    }
    let mut delays = Vec::new();
    let mut places = Vec::new();
    for _ in 0..1000 {
        match guard.arrive() {
            Arrival::Admitted(_) => assert!(delays.is_empty()),
            Arrival::Queued(place) => {
                delays.push(place.delay());
                places.push(place);
            }
            Arrival::Shed(_) => break,
        }
    }
    assert!(delays.len() > 10, "{delays:?}");
    assert!(delays.windows(2).all(|pair| pair[0] < pair[1]), "{delays:?}");
    assert!(*delays.last().unwrap() <= Duration::from_millis(250));
    assert_eq!(guard.stats().queued, places.len());
    // Each is admitted when its delay is over.
    clock.advance(Duration::from_millis(250));
    for place in places {
        assert!(matches!(place.again(), Arrival::Admitted(_)));
    }
    assert_eq!((guard.stats().queued, guard.stats().serving), (0, 0));
}

#[test]
fn the_queue_is_bounded_and_the_bound_on_concurrency_holds() {
    let clock = clock();
    let guard = guard(&clock).concurrency_max(3).queue_max(2).build().unwrap();
    let passes: Vec<Arrival> = (0..3).map(|_| guard.arrive()).collect();
    assert!(passes.iter().all(|arrival| matches!(arrival, Arrival::Admitted(_))));
    let queued: Vec<Arrival> = (0..2).map(|_| guard.arrive()).collect();
    assert!(queued.iter().all(|arrival| matches!(arrival, Arrival::Queued(_))));
    assert!(matches!(guard.arrive(), Arrival::Shed(_)));
    assert_eq!((guard.stats().serving, guard.stats().queued, guard.stats().shed), (3, 2, 1));
    // A queued request waits 5, 10, 20, 40, 80 ms, and is rejected before the sum exceeds 250.
    let mut delays = Vec::new();
    let mut arrival = queued.into_iter().next().unwrap();
    while let Arrival::Queued(place) = arrival {
        delays.push(place.delay().as_millis());
        arrival = place.again();
    }
    assert_eq!(delays, [5, 10, 20, 40, 80]);
    assert!(matches!(arrival, Arrival::Shed(_)));
    drop(passes);
    assert_eq!((guard.stats().serving, guard.stats().queued, guard.stats().admitted), (0, 0, 3));
    assert!(matches!(guard.arrive(), Arrival::Admitted(_)));
}

#[test]
fn enabling_and_disabling_take_effect_immediately() {
    let clock = clock();
    let guard = guard(&clock).enabled(false).concurrency_max(1).build().unwrap();
    for _ in 0..12 {
        assert_eq!(second(&guard, &clock, 100), [100, 0, 0]);
    }
    assert_eq!(second(&guard, &clock, 5000), [5000, 0, 0]);
    guard.set_enabled(true);
    assert!(guard.stats().is_warm, "it counts while disabled");
    let [_, _, shed] = second(&guard, &clock, 5000);
    assert!(shed > 4000, "{shed}");
}

#[test]
fn settings_out_of_range_are_refused() {
    let of = |builder: OverloadGuardBuilder| builder.build().unwrap_err().to_string();
    let guard = || OverloadGuard::builder("front");
    assert!(of(guard().multiple_percent(100)).contains("use 101 to 10000"));
    assert!(of(guard().interval(Duration::from_millis(1))).contains("use 10 to 3600000"));
    assert!(of(guard().weight(0)).contains("weight 0"));
    assert!(of(guard().floor(0)).contains("floor 0"));
    assert!(of(guard().concurrency_max(0)).contains("concurrency_max 0"));
    assert!(of(guard().delay_max(Duration::from_secs(61))).contains("delay_max"));
    assert!(of(OverloadGuard::builder("a\"b")).contains("invalid policy name"));
}

#[tokio::test]
async fn the_layer_queues_then_rejects_and_reports() {
    let clock = clock();
    let metrics = Arc::new(Metrics::new());
    let guard = guard(&clock).concurrency_max(1).build().unwrap();
    let sleeper = clock.clone();
    let sleep = Sleep::new(move |time| {
        sleeper.advance(time);
        async {}
    });
    let layer = OverloadLayer::new(guard.clone()).sleep(sleep).observer(Arc::clone(&metrics));
    let service = layer.layer(App::default());

    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(guard.stats().serving, 0);
    let Arrival::Admitted(busy) = guard.arrive() else { unreachable!("no request is in service") };
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.status(), 503);
    assert_eq!(response.headers()["retry-after"], "1");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert!(response.body().contains("temporary-reduced-capacity"), "{}", response.body());
    drop(busy);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    let text = metrics.render();
    for line in [
        r#"rate_limit_guarded_total{guard="front"} 3"#,
        r#"rate_limit_shed_total{guard="front"} 1"#,
        r#"rate_limit_queued_total{guard="front"} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}

#[tokio::test]
async fn queued_requests_are_served_or_leave_when_cancelled() {
    let clock = clock();
    let guard = guard(&clock).concurrency_max(1).build().unwrap();
    let layer = OverloadLayer::new(guard.clone()).sleep(Sleep::new(|_| tokio::task::yield_now()));
    let mut service = layer.layer(App::default());
    let Arrival::Admitted(busy) = guard.arrive() else { unreachable!("no request is in service") };

    let cancelled = service.ready().await.unwrap().call(from("192.0.2.1"));
    assert_eq!(guard.stats().queued, 1);
    drop(cancelled);
    assert_eq!(guard.stats().queued, 0);

    let queued = service.ready().await.unwrap().call(from("192.0.2.1"));
    assert_eq!(guard.stats().queued, 1);
    drop(busy);
    assert_eq!(queued.await.unwrap().status(), 200);
    assert_eq!((guard.stats().queued, guard.stats().serving), (0, 0));
}

#[tokio::test]
async fn without_sleep_requests_are_rejected() {
    let clock = clock();
    let guard = guard(&clock).concurrency_max(1).build().unwrap();
    let service = OverloadLayer::new(guard.clone()).layer(App::default());
    let Arrival::Admitted(_busy) = guard.arrive() else { unreachable!("no request is in service") };
    assert_eq!(status(&service, from("192.0.2.1")).await, 503);
    assert_eq!(guard.stats().queued, 0);
}
