//! Decisions that handlers read, and charges that they settle.
//!
//! What could go wrong: a charge settled twice; units refunded to another key, tier or store than
//! they were taken from; fields that show the taken units, not the charged ones; a charge that both
//! the handler and the layer refund.

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::{Request, Response, StatusCode};
use slidegate::{Cost, Limiter, ManualClock, Policy, Quota};
use slidegate_tower::{
    Charge, Count, Gate, KeyBy, RateLimitDecision, RateLimitLayer, RateLimitLayerBuilder, Rule,
};
use tower::util::BoxCloneSyncService;
use tower::{Layer, service_fn};

use crate::app::{clock, from, limiter, send, with};
use crate::remote::Remote;

type App = BoxCloneSyncService<Request<()>, Response<String>, Infallible>;

/// Returns a service that does something with the decision of its requests.
fn app<F>(handle: impl Fn(RateLimitDecision) -> F + Clone + Send + Sync + 'static) -> App
where
    F: Future<Output = String> + Send + 'static,
{
    BoxCloneSyncService::new(service_fn(move |request: Request<()>| {
        let decision = request.extensions().get::<RateLimitDecision>().cloned().unwrap();
        let handled = handle(decision);
        async move { Ok(Response::new(handled.await)) }
    }))
}

fn tokens(units: u64) -> impl Fn(&slidegate_tower::Head<'_>) -> Cost + Clone + Send + Sync {
    move |_| Cost::new(units).unwrap()
}

/// Returns the same limiter as a store in memory and as one outside this process.
fn stores(limit: u32, clock: &ManualClock) -> [(Gate, Arc<Limiter>); 2] {
    [false, true].map(|is_remote| {
        let limiter = Arc::new(limiter("tokens", limit, clock));
        let builder = if is_remote {
            let is_down = Arc::new(AtomicBool::new(false));
            Gate::builder(Remote { limiter: Arc::clone(&limiter), is_down })
        } else {
            Gate::builder(Arc::clone(&limiter))
        };
        let tier = [Quota::per_minute(limit * 10)];
        (builder.tier("gold", tier).build().unwrap(), limiter)
    })
}

fn build(rules: impl IntoIterator<Item = Rule>) -> RateLimitLayer {
    let builder = rules.into_iter().fold(RateLimitLayer::builder(), RateLimitLayerBuilder::rule);
    builder.share_decision().secret([7; 16]).build().unwrap()
}

#[tokio::test]
async fn a_handler_settles_a_charge_in_any_store() {
    let clock = clock();
    for (gate, _) in stores(1000, &clock) {
        let rule = Rule::new(gate).key(KeyBy::header("x-user")).cost(tokens(400));
        let service = build([rule]).layer(app(|decision| async move {
            let charge = decision.policy("tokens").unwrap();
            assert_eq!(charge.units(), 400);
            let before = decision.remaining().unwrap();
            assert_eq!(charge.settle(50).await.unwrap(), 50);
            // Only once.
            assert_eq!((charge.settle(400).await.unwrap(), charge.units()), (0, 0));
            assert_eq!(charge.refund().await.unwrap(), 0);
            assert_eq!(decision.remaining(), Some(before + 350));
            before.to_string()
        }));
        let first = send(&service, with("x-user", "alice")).await;
        assert_eq!(first.body(), "600");
        // Settled before the response, so the fields are correct.
        assert_eq!(first.headers()["x-ratelimit-remaining"], "950");
        // Three requests would not fit if each took 400.
        for number in 2..=12_u64 {
            let response = send(&service, with("x-user", "alice")).await;
            let left = (1000 - number * 50).to_string();
            assert_eq!(response.headers()["x-ratelimit-remaining"], left.as_str());
        }
        let other = send(&service, with("x-user", "bob")).await;
        assert_eq!(other.headers()["x-ratelimit-remaining"], "950");
    }
}

#[tokio::test]
async fn settling_for_more_charges_above_the_limit() {
    let clock = clock();
    for (gate, _) in stores(100, &clock) {
        let rule = Rule::new(gate).key(KeyBy::header("x-user")).cost(tokens(10));
        let service = build([rule]).layer(app(|decision| async move {
            decision.charges()[0].settle(150).await.unwrap().to_string()
        }));
        let first = send(&service, with("x-user", "alice")).await;
        assert_eq!(first.body(), "150");
        assert_eq!(first.headers()["x-ratelimit-remaining"], "0");
        let denied = send(&service, with("x-user", "alice")).await;
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
    }
}

#[tokio::test]
async fn a_tier_and_several_rules_are_settled_separately() {
    let clock = clock();
    for (gate, _) in stores(1000, &clock) {
        let gold = gate.tier("gold");
        let budget =
            Rule::new(gate).key(KeyBy::header("x-user")).cost(tokens(4000)).tier_by(move |_| gold);
        let requests = Rule::new(limiter("requests", 3, &clock));
        let service = build([requests, budget]).layer(app(move |decision| async move {
            let names: Vec<_> = decision.charges().iter().map(Charge::policy).collect();
            assert_eq!(names, ["requests", "tokens"]);
            assert!(decision.policy("other").is_none());
            let budget = decision.policy("tokens").unwrap();
            assert_eq!(budget.tier(), gold);
            // The receipt can also be taken and used later.
            let receipt = budget.take_receipt().unwrap();
            let charged = budget.gate().settle(budget.key(), budget.tier(), receipt, 100).await;
            charged.unwrap().to_string()
        }));
        for left in ["2", "1", "0"] {
            let response = send(&service, with("x-user", "alice")).await;
            assert_eq!(response.body(), "100");
            assert_eq!(response.headers()["x-ratelimit-remaining"], left);
        }
        let denied = send(&service, with("x-user", "alice")).await;
        assert_eq!(denied.status(), StatusCode::TOO_MANY_REQUESTS);
        // 300 of 10,000 are used, not 12,000: four more estimates do not fit, two do.
        let budget = send(&service, with("x-user", "alice")).await;
        assert!(budget.headers()["ratelimit"].to_str().unwrap().contains(r#""tokens";r=9700"#));
    }
}

// The layer refunds responses that do not count, unless the handler has settled them.
#[tokio::test]
async fn settled_units_are_not_refunded_by_the_layer() {
    let clock = clock();
    for settles in [false, true] {
        for (gate, limiter) in stores(100, &clock) {
            let rule = Rule::new(gate).cost(tokens(10)).count(Count::failed());
            let service = build([rule]).layer(app(move |decision| async move {
                if settles {
                    decision.charges()[0].settle(4).await.unwrap();
                }
                String::new()
            }));
            let served = send(&service, from("192.0.2.1")).await;
            let left = if settles { "96" } else { "100" };
            assert_eq!(served.headers()["x-ratelimit-remaining"], left);
            drop(limiter);
        }
    }
}

#[tokio::test]
async fn a_failed_store_keeps_the_charge() {
    let clock = clock();
    let limiter = Arc::new(limiter("tokens", 100, &clock));
    let is_down = Arc::new(AtomicBool::new(false));
    let store = Remote { limiter: Arc::clone(&limiter), is_down: Arc::clone(&is_down) };
    let rule = Rule::new(Gate::builder(store).build().unwrap()).cost(tokens(10));
    let service = build([rule]).layer(app(move |decision| {
        let is_down = Arc::clone(&is_down);
        async move {
            is_down.store(true, Ordering::Relaxed);
            let failed = decision.charges()[0].settle(1).await.unwrap_err();
            is_down.store(false, Ordering::Relaxed);
            failed.to_string()
        }
    }));
    let served = send(&service, from("192.0.2.1")).await;
    assert_eq!(served.body(), "the store is down");
    assert_eq!(served.headers()["x-ratelimit-remaining"], "90");
}

#[tokio::test]
async fn nested_layers_share_all_charges() {
    let clock = clock();
    let inner = build([Rule::new(limiter("inner", 10, &clock))]);
    let outer = build([Rule::new(limiter("outer", 5, &clock))]);
    let service = outer.layer(inner.layer(app(|decision| async move {
        let policies = decision.charges().iter().map(|one| one.policy().to_owned());
        policies.collect::<Vec<_>>().join(" ")
    })));
    assert_eq!(send(&service, from("192.0.2.1")).await.body(), "outer inner");
}

// A log line must not show a key, which may be a credential.
#[tokio::test]
async fn the_debug_form_has_no_key() {
    let clock = clock();
    let rule = Rule::new(limiter("api", 5, &clock)).key(KeyBy::header("x-api-key"));
    let service = build([rule]).layer(app(|decision| async move { format!("{decision:?}") }));
    let shown = send(&service, with("x-api-key", "s3cret")).await.into_body();
    assert!(shown.contains("api") && !shown.contains("s3cret"), "{shown}");
}

#[tokio::test]
async fn units_and_partition_keys_are_in_the_fields() {
    use slidegate_http::{AdvertisedLimits, QuotaUnit};
    use slidegate_tower::PartitionKey;
    use std::time::SystemTime;

    let clock = clock();
    let rule = |key: Option<PartitionKey>| {
        let rule = Rule::new(limiter("tokens", 1000, &clock)).key(KeyBy::header("x-api-key"));
        let rule = rule.cost(tokens(10)).unit(QuotaUnit::new("tokens").unwrap());
        key.into_iter().fold(rule, Rule::partition_key)
    };
    let layer = |rule| RateLimitLayer::builder().rule(rule).secret([7; 16]).build().unwrap();
    let read = |response: &Response<String>| {
        let limits = AdvertisedLimits::read(response.headers(), SystemTime::UNIX_EPOCH);
        let quota = &limits.quotas()[0];
        assert_eq!(quota.unit(), Some("tokens"));
        quota.partition_key().map(<[u8]>::to_vec)
    };
    let app = || crate::app::App::default();

    let plain = layer(rule(None)).layer(app());
    assert_eq!(read(&send(&plain, with("x-api-key", "s3cret")).await), None);

    let digest = layer(rule(Some(PartitionKey::digest()))).layer(app());
    let one = read(&send(&digest, with("x-api-key", "s3cret")).await).unwrap();
    assert_eq!(one.len(), 16);
    assert_eq!(read(&send(&digest, with("x-api-key", "s3cret")).await).unwrap(), one);
    assert_ne!(read(&send(&digest, with("x-api-key", "other")).await).unwrap(), one);

    let by_function = PartitionKey::with(|head| head.headers().get("x-user").cloned());
    let by_function = layer(rule(Some(by_function))).layer(app());
    assert_eq!(read(&send(&by_function, with("x-api-key", "s3cret")).await), None);
    let mut request = with("x-api-key", "s3cret");
    request.headers_mut().insert("x-user", "alice".parse().unwrap());
    assert_eq!(read(&send(&by_function, request).await).unwrap(), b"alice");
}

#[tokio::test]
async fn settles_all_quotas_of_a_policy() {
    let clock = clock();
    let policy =
        Policy::builder("tokens").quota(Quota::per_second(100)).quota(Quota::per_hour(1000));
    let limiter = Limiter::builder(policy.build().unwrap()).clock(clock.clone()).build().unwrap();
    let service = build([Rule::new(limiter).cost(tokens(80))]).layer(app(|decision| async move {
        decision.charges()[0].settle(30).await.unwrap();
        let left = decision.charges()[0].quotas();
        format!("{} {}", left[0].remaining(), left[1].remaining())
    }));
    assert_eq!(send(&service, from("192.0.2.1")).await.body(), "70 970");
}
