//! Keys, costs and responses of rules.
//!
//! What could go wrong: two clients with one key; one client with two; a request that one gate
//! charges and another denies; a 429 that a cache stores; a correct password that costs units.

use std::sync::Arc;
use std::time::Duration;

use crate::app::{behind, clock, from, get, layer, limiter, send, status, with};
use http::Request;
use slidegate::{Algorithm, Cost, Limiter, ManualClock, Policy, Quota};
use slidegate_http::{Fields, Reset};
use slidegate_tower::{
    Count, Denial, Gate, GateBuilder, KeyBy, MatchedRoute, Missing, RateLimitLayer,
    RateLimitLayerBuilder, Rule,
};

#[tokio::test]
async fn limits_each_address_and_reports_the_quota() {
    let clock = clock();
    let (app, service) = behind(&layer([Rule::new(limiter("ip", 2, &clock))]));

    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.status(), 200);
    assert_eq!(response.headers()["ratelimit"], r#""ip";r=1;t=60"#);
    assert_eq!(response.headers()["ratelimit-policy"], r#""ip";q=2;w=60"#);
    assert_eq!(response.headers()["x-ratelimit-remaining"], "1");
    assert!(!response.headers().contains_key("retry-after"));
    assert!(!response.headers().contains_key("cache-control"));
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);

    clock.advance(Duration::from_secs(20));
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "40");
    assert_eq!(response.headers()["cache-control"], "no-store");
    assert_eq!(response.headers()["content-type"], "application/problem+json");
    assert_eq!(response.headers()["x-ratelimit-remaining"], "0");
    let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(body["violated-policies"][0], "ip");
    assert_eq!(body["retry_after"], 40);
    // A denied request does not reach the service, and other clients are not affected.
    assert_eq!(app.served(), 2);
    assert_eq!(status(&service, from("192.0.2.2")).await, 200);

    // Exact to the millisecond.
    clock.advance(Duration::from_millis(39_999));
    assert_eq!(status(&service, from("192.0.2.1")).await, 429);
    clock.advance(Duration::from_millis(1));
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
}

#[tokio::test]
async fn missing_peer_addresses_are_a_server_error() {
    let clock = clock();
    let (app, service) = behind(&layer([Rule::new(limiter("ip", 100, &clock))]));
    let response = send(&service, Request::new(())).await;
    assert_eq!(response.status(), 500);
    assert!(response.body().contains("into_make_service_with_connect_info"), "{response:?}");
    assert_eq!(app.served(), 0);
}

#[tokio::test]
async fn missing_keys_follow_the_setting() {
    let clock = clock();
    let gate = |missing| {
        let gate = Rule::new(limiter("api", 1, &clock)).key(KeyBy::header("x-user"));
        behind(&layer([gate.missing(missing)])).1
    };
    let skip = gate(Missing::Skip);
    for _ in 0..3 {
        let response = send(&skip, from("192.0.2.1")).await;
        assert_eq!(response.status(), 200);
        assert!(!response.headers().contains_key("ratelimit"));
    }
    let deny = gate(Missing::Deny);
    let response = send(&deny, from("192.0.2.1")).await;
    assert_eq!(
        (response.status().as_u16(), &response.headers()["cache-control"]),
        (403, &"no-store".parse().unwrap())
    );
    assert_eq!(status(&deny, with("x-user", "alice")).await, 200);

    let peer = gate(Missing::Peer);
    assert_eq!(status(&peer, from("192.0.2.1")).await, 200);
    assert_eq!(status(&peer, from("192.0.2.1")).await, 429);
    assert_eq!(status(&peer, from("192.0.2.2")).await, 200);
    // A name with the bytes of an address is not that address.
    assert_eq!(status(&peer, with("x-user", "192.0.2.1")).await, 200);
    assert_eq!(status(&peer, Request::new(())).await, 500);
}

#[tokio::test]
async fn user_and_route_are_counted_together_and_the_path_is_not() {
    let clock = clock();
    let gate =
        Rule::new(limiter("api", 1, &clock)).key(KeyBy::header("x-user").and(KeyBy::route()));
    let (_, service) = behind(&layer([gate]));
    let ask = |user: &str, route: &'static str, path: &str| {
        let mut request = with("x-user", user);
        *request.uri_mut() = path.parse().unwrap();
        request.extensions_mut().insert(MatchedRoute::new(route));
        request
    };
    assert_eq!(status(&service, ask("alice", "/verify/{code}", "/verify/1")).await, 200);
    // Varying parts that the client chooses does not help.
    assert_eq!(status(&service, ask("alice", "/verify/{code}", "/verify/2")).await, 429);
    assert_eq!(status(&service, ask("alice", "/search", "/search")).await, 200);
    assert_eq!(status(&service, ask("bob", "/verify/{code}", "/verify/1")).await, 200);
}

#[tokio::test]
async fn costs_exemptions_and_extensions() {
    #[derive(Clone)]
    struct UserId(u64);

    let clock = clock();
    let gate = Rule::new(limiter("api", 10, &clock))
        .key(KeyBy::extension(|user: &UserId| user.0.to_be_bytes()))
        .missing(Missing::Skip)
        .cost(|head| Cost::new(if head.method() == "POST" { 6 } else { 1 }).unwrap())
        .only(|head| head.uri().path().starts_with("/api"))
        .exempt(|head| head.uri().path() == "/api/health");
    let (_, service) = behind(&layer([gate]));
    let ask = |method: &str, path: &str, user: u64| {
        let mut request = get(path);
        *request.method_mut() = method.parse().unwrap();
        request.extensions_mut().insert(UserId(user));
        request
    };
    let response = send(&service, ask("POST", "/api/x", 1)).await;
    assert_eq!(response.headers()["x-ratelimit-remaining"], "4");
    assert_eq!(status(&service, ask("POST", "/api/x", 1)).await, 429);
    assert_eq!(status(&service, ask("GET", "/api/x", 1)).await, 200);
    assert_eq!(status(&service, ask("POST", "/api/x", 2)).await, 200);
    for path in ["/api/health", "/elsewhere"] {
        let response = send(&service, ask("POST", path, 1)).await;
        assert_eq!(response.status(), 200, "{path}");
        assert!(!response.headers().contains_key("ratelimit"), "{path}");
    }
}

#[tokio::test]
async fn a_cost_above_the_limit_has_no_retry_time() {
    let clock = clock();
    let gate = Rule::new(limiter("api", 5, &clock)).cost(|_| Cost::new(6).unwrap());
    let (_, service) = behind(&layer([gate]));
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.status(), 429);
    assert!(!response.headers().contains_key("retry-after"));
    assert_eq!(response.headers()["cache-control"], "no-store");
}

#[tokio::test]
async fn a_tier_has_its_own_quotas_and_fields() {
    let clock = clock();
    let gate = Gate::builder(limiter("api", 1, &clock));
    let gate = gate.tier("gold", [Quota::per_hour(1000)]).build().unwrap();
    let gold = gate.tier("gold");
    let gate = Rule::new(gate).key(KeyBy::header("x-api-key"));
    let is_gold = |key: Option<&str>| key.is_some_and(|key| key.starts_with("gold-"));
    let name = http::HeaderName::from_static("x-api-key");
    let gate = gate.tier_by(move |head| gold.filter(|_| is_gold(head.only(&name))));
    let (_, service) = behind(&layer([gate]));

    assert_eq!(status(&service, with("x-api-key", "free-1")).await, 200);
    assert_eq!(status(&service, with("x-api-key", "free-1")).await, 429);
    for _ in 0..20 {
        assert_eq!(status(&service, with("x-api-key", "gold-1")).await, 200);
    }
    let response = send(&service, with("x-api-key", "gold-1")).await;
    assert_eq!(response.headers()["ratelimit-policy"], r#""api";q=1000;w=3600"#);
    assert_eq!(response.headers()["x-ratelimit-limit"], "1000");
}

// The first tier of one gate would be the first tier of the other.
#[tokio::test]
async fn the_tier_of_another_gate_is_denied() {
    let clock = clock();
    let gate = |name: &str| {
        let builder = Gate::builder(limiter(name, 1, &clock));
        builder.tier("first", [Quota::per_hour(1000)]).build().unwrap()
    };
    let foreign = gate("other").tier("first");
    for rules in [1, 2] {
        let rule = |name: &str| Rule::new(gate(name)).tier_by(move |_| foreign);
        let (app, service) = behind(&layer([rule("api"), rule("more")].into_iter().take(rules)));
        for _ in 0..2 {
            assert_eq!(status(&service, from("192.0.2.1")).await, 503);
        }
        assert_eq!(app.served(), 0);
    }
}

#[tokio::test]
async fn several_gates_take_all_or_nothing() {
    let clock = clock();
    let (by_user, by_ip) =
        (Arc::new(limiter("user", 1, &clock)), Arc::new(limiter("ip", 100, &clock)));
    let gates = [Rule::new(Arc::clone(&by_ip)), Rule::new(by_user).key(KeyBy::header("x-user"))];
    let (_, service) = behind(&layer(gates));
    assert_eq!(status(&service, with("x-user", "alice")).await, 200);
    let response = send(&service, with("x-user", "alice")).await;
    assert_eq!(response.status(), 429);
    // Only the policy that denied is named.
    let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!(body["violated-policies"], serde_json::json!(["user"]));
    // The address was charged for the allowed request, not for the other.
    let response = send(&service, with("x-user", "bob")).await;
    assert_eq!(response.headers()["ratelimit"], r#""ip";r=98;t=60, "user";r=0;t=60"#);
}

/// Five failures per minute.
fn login_guard(clock: &ManualClock, count: Count) -> RateLimitLayer {
    layer([Rule::new(limiter("login", 5, clock)).count(count)])
}

#[tokio::test]
async fn only_wrong_passwords_count() {
    let clock = clock();
    let (app, service) = behind(&login_guard(&clock, Count::failed()));
    for _ in 0..50 {
        let response = send(&service, get("/200")).await;
        // As if nothing had been taken, because nothing stays taken.
        assert_eq!(response.headers()["ratelimit"], r#""login";r=5;t=0"#);
    }
    for left in ["4", "3", "2", "1", "0"] {
        let response = send(&service, get("/401")).await;
        assert_eq!(response.headers()["x-ratelimit-remaining"], left);
    }
    // Now even a correct password is denied.
    assert_eq!(status(&service, get("/200")).await, 429);
    assert_eq!(app.served(), 55);
    clock.advance(Duration::from_secs(60));
    assert_eq!(status(&service, get("/200")).await, 200);
}

// With the policy's rate, a bucket would get a hundred units back for one of the tier's.
#[tokio::test]
async fn refunds_use_the_quotas_of_the_tier() {
    let quota = Quota::per_minute(10);
    let policy = Policy::builder("login").quota(quota).algorithm(Algorithm::Gcra).build().unwrap();
    let limiter = Limiter::builder(policy).clock(clock()).memory_limit(4 << 20).build().unwrap();
    let gate = Gate::builder(limiter).tier("gold", [Quota::per_minute(1000)]);
    let gate = gate.build().unwrap();
    let gold = gate.tier("gold");
    let rule = Rule::new(gate).count(Count::failed()).tier_by(move |_| gold);
    let (_, service) = behind(&layer([rule]));
    for _ in 0..20 {
        assert_eq!(status(&service, get("/401")).await, 401);
    }
    let response = send(&service, get("/200")).await;
    assert_eq!(response.headers()["x-ratelimit-remaining"], "980");
    let response = send(&service, get("/401")).await;
    assert_eq!(response.headers()["x-ratelimit-remaining"], "979");
}

#[tokio::test]
async fn counts_successes_or_by_a_function() {
    let clock = clock();
    let (_, service) = behind(&login_guard(&clock, Count::successful()));
    for _ in 0..20 {
        assert_eq!(status(&service, get("/500")).await, 500);
    }
    for _ in 0..5 {
        assert_eq!(status(&service, get("/200")).await, 200);
    }
    assert_eq!(status(&service, get("/500")).await, 429);

    let only_404 = Count::when(|served| served.status().is_some_and(|status| status == 404));
    let (_, service) = behind(&login_guard(&clock, only_404));
    for _ in 0..5 {
        assert_eq!(status(&service, get("/403")).await, 403);
        assert_eq!(status(&service, get("/404")).await, 404);
    }
    assert_eq!(status(&service, get("/200")).await, 429);
}

#[tokio::test]
async fn fields_and_answers_are_chosen() {
    let clock = clock();
    let gate = Rule::new(limiter("api", 1, &clock));
    let epoch = Fields::none().x_ratelimit(Reset::Epoch);
    let layer = RateLimitLayer::builder()
        .rule(gate)
        .fields(epoch)
        .clock(clock.clone())
        .answer(|denial: &Denial| {
            http::Response::builder().status(420).body(denial.message()).unwrap()
        })
        .build()
        .unwrap();
    let (_, service) = behind(&layer);
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.headers()["x-ratelimit-reset"], "1700000060");
    assert!(!response.headers().contains_key("ratelimit"));
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!((response.status().as_u16(), response.body().as_str()), (420, "used up: api"));

    let gate = Rule::new(limiter("api", 1, &clock));
    let none = RateLimitLayer::builder().rule(gate).fields(None).build().unwrap();
    let (_, service) = behind(&none);
    assert_eq!(send(&service, from("192.0.2.1")).await.headers().len(), 0);
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.headers()["retry-after"], "60");
}

#[tokio::test]
async fn a_denial_carries_the_trace_id() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let clock = clock();
    let build = |builder: RateLimitLayerBuilder| {
        behind(&builder.rule(Rule::new(limiter("api", 1, &clock))).build().unwrap()).1
    };
    let plain = build(RateLimitLayer::builder());
    let own = build(RateLimitLayer::builder().trace_id(|_| Some("mine".to_owned())));
    for (service, expected) in [(plain, "4bf92f3577b34da6a3ce929d0e0e4736"), (own, "mine")] {
        assert_eq!(status(&service, from("192.0.2.1")).await, 200);
        let response = send(&service, with("traceparent", TRACE)).await;
        let body: serde_json::Value = serde_json::from_str(response.body()).unwrap();
        assert_eq!(body["trace_id"], expected);
    }
}

#[test]
fn rejects_invalid_settings_with_a_reason() {
    let clock = clock();
    let gate = || Rule::new(limiter("api", 1, &clock));
    let refusal = |gates: Vec<Rule>| {
        let builder =
            gates.into_iter().fold(RateLimitLayer::builder(), RateLimitLayerBuilder::rule);
        builder.build().unwrap_err().to_string()
    };
    assert!(refusal(vec![]).contains("use 1 to 16"));
    assert!(refusal(vec![gate(); 17]).contains("number of rules 17"));
    assert!(refusal(vec![gate().key(KeyBy::header("no such"))]).contains("\"no such\""));
    let many = (0..8).fold(KeyBy::peer(), |key, _| key.and(KeyBy::peer()));
    assert!(refusal(vec![gate().key(many)]).contains("9 parts"));
    let gate = || Gate::builder(limiter("api", 1, &clock));
    let refusal = |gate: GateBuilder| gate.build().unwrap_err().to_string();
    assert!(refusal(gate().enforce_percent(101)).contains("101 percent is out of range"));
    let quotas = [Quota::per_second(1), Quota::per_hour(9)];
    assert!(refusal(gate().tier("gold", quotas)).contains("does not fit"));
}

#[tokio::test]
async fn several_quotas_of_one_policy() {
    let policy = Policy::builder("api")
        .quota(Quota::per_second(2))
        .quota(Quota::per_hour(3))
        .build()
        .unwrap();
    let clock = clock();
    let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
    let (_, service) = behind(&layer([Rule::new(limiter)]));
    let response = send(&service, from("192.0.2.1")).await;
    assert_eq!(response.headers()["ratelimit"], r#""api-1s";r=1;t=1, "api-3600s";r=2;t=3600"#);
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(send(&service, from("192.0.2.1")).await.headers()["retry-after"], "1");
    clock.advance(Duration::from_secs(1));
    assert_eq!(status(&service, from("192.0.2.1")).await, 200);
    assert_eq!(send(&service, from("192.0.2.1")).await.headers()["retry-after"], "3599");
}
