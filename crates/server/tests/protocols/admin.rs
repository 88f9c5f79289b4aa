//! The admin listener: who has access, and that its pages are correct and well-formed.
//!
//! What could go wrong: a page that Prometheus rejects as a whole, series that grow with what
//! clients send, a reply to a client without a token.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use serde_json::json;
use slidegate::{FailureMode, Quota};
use slidegate_server::admin::{Access, AdminState, Kind, MetricsSource, Page, ResultCounts};
use slidegate_server::dashboard::Dashboard;
use slidegate_server::engine::Engine;
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_server::spec::{PolicySpec, RedisPlace, RedisSpec, Rollout, Spec, StoreSpec};
use slidegate_testkit::server::{PATIENCE, RedisServer, poll_async};

use crate::http_client::{Client, Running, engine};

const TOKEN: &str = "a-token-of-the-test-0123";

fn spec() -> Spec {
    let quota = || vec![Quota::per_minute(3)];
    let mut shadow = PolicySpec::new("shadow", quota());
    shadow.rollout = Rollout::Shadow;
    Spec { policies: vec![PolicySpec::new("api", quota()), shadow], ..Spec::default() }
}

async fn admin(engine: &Arc<Engine>) -> (Running, Arc<AdminState>) {
    let state = Arc::new(AdminState::new(Arc::clone(engine), Access::local()));
    (Running::of(Arc::clone(&state)).await, state)
}

// A page with thousands of policies takes long.
#[tokio::test]
async fn a_page_that_is_being_written_delays_no_other_request() {
    let (engine, _clock) = engine(&spec());
    let (go_on, wait) = mpsc::channel();
    let wait = Mutex::new(wait);
    let source: MetricsSource =
        Arc::new(move |_: &mut Page| wait.lock().unwrap().recv_timeout(PATIENCE).unwrap());
    let state = AdminState { sources: vec![source], ..AdminState::new(engine, Access::local()) };
    let server = Running::of(Arc::new(state)).await;
    let mut page = Client::connect(server.address).await;
    page.write(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    let mut other = Client::connect(server.address).await;
    assert_eq!(other.get("/livez").await.status, 200);
    go_on.send(()).unwrap();
    assert_eq!(page.read(true).await.unwrap().status, 200);
}

#[tokio::test]
async fn a_state_document_that_is_being_written_delays_no_other_request() {
    let (engine, _clock) = engine(&spec());
    let flag = Arc::default();
    let reloads = Arc::new(ResultCounts::new("reloads_total", "Reloads.", &["ok", "failed"]));
    let dashboard = Dashboard::new(Arc::clone(&engine), None, reloads, flag);
    let state = AdminState::new(Arc::clone(&engine), Access::local());
    let state = AdminState { dashboard: Some(dashboard), ..state };
    let server = Running::of(Arc::new(state)).await;
    for path in ["/dashboard/state", "/dashboard/events"] {
        let (go_on, wait) = mpsc::channel();
        let (begun, begins) = mpsc::channel();
        let metrics = Arc::clone(engine.metrics());
        // A document reads the counters of all gates, and waits for others that do.
        let reader = std::thread::spawn(move || {
            let mut is_first = true;
            metrics.for_each_gate(|_, _, _| {
                if core::mem::take(&mut is_first) {
                    begun.send(()).unwrap();
                    wait.recv_timeout(PATIENCE).unwrap();
                }
            });
        });
        begins.recv_timeout(PATIENCE).unwrap();
        let mut page = Client::connect(server.address).await;
        page.write(format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").as_bytes()).await;
        let mut other = Client::connect(server.address).await;
        for _ in 0..3 {
            assert_eq!(other.get("/livez").await.status, 200, "{path}");
        }
        go_on.send(()).unwrap();
        reader.join().unwrap();
        // Events are sent in pieces and have no length.
        assert_eq!(page.read(path == "/dashboard/state").await.unwrap().status, 200, "{path}");
    }
}

/// A family of a page: its type, and its samples by name and labels.
#[derive(Debug)]
struct Family {
    kind: String,
    samples: BTreeMap<String, f64>,
}

/// Reads a page as strictly as Prometheus does, and more so: heads before samples, families in one
/// piece, nothing twice, histograms that add up.
fn parse(page: &str) -> BTreeMap<String, Family> {
    assert!(page.ends_with('\n'));
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let (mut current, mut helped) = (String::new(), String::new());
    for line in page.lines() {
        if let Some(rest) = line.strip_prefix("# HELP ") {
            let (name, help) = rest.split_once(' ').unwrap();
            assert!(is_name(name) && !help.is_empty(), "{line}");
            name.clone_into(&mut helped);
        } else if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert_eq!(name, helped, "a type without help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{line}");
            assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
            let family = Family { kind: kind.to_owned(), samples: BTreeMap::new() };
            assert!(families.insert(name.to_owned(), family).is_none(), "{name} comes twice");
            name.clone_into(&mut current);
        } else {
            let (series, value) = line.rsplit_once(' ').unwrap();
            let name = series.split('{').next().unwrap();
            let family = families.get_mut(&current).unwrap();
            let suffixes: &[&str] = match family.kind.as_str() {
                "histogram" => &["_bucket", "_sum", "_count"],
                _ => &[""],
            };
            let rest = name.strip_prefix(current.as_str()).unwrap_or_else(|| panic!("{line}"));
            assert!(suffixes.contains(&rest), "{line}");
            check_labels(&series[name.len()..]);
            let value = value.parse().unwrap();
            assert!(family.samples.insert(series.to_owned(), value).is_none(), "{series} twice");
        }
    }
    for family in families.values().filter(|family| family.kind == "histogram") {
        check_histogram(family);
    }
    families
}

fn is_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_')
}

fn check_labels(labels: &str) {
    if labels.is_empty() {
        return;
    }
    let mut rest = labels.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap();
    let mut names = HashSet::new();
    while !rest.is_empty() {
        let (name, after) = rest.split_once("=\"").unwrap();
        assert!(is_name(name) && names.insert(name), "{labels}");
        let end = after.find('"').unwrap();
        rest = after[end + 1..].strip_prefix(',').unwrap_or(&after[end + 1..]);
    }
}

/// Buckets grow, and the last is the count.
fn check_histogram(family: &Family) {
    let mut buckets: BTreeMap<String, Vec<(f64, f64)>> = BTreeMap::new();
    for (series, value) in &family.samples {
        if let Some((before, bound)) = series.split_once("le=\"") {
            let bound = bound.trim_end_matches("\"}");
            let bound = if bound == "+Inf" { f64::INFINITY } else { bound.parse().unwrap() };
            let base = before.replace("_bucket", "_count");
            let base = base.trim_end_matches([',', '{']);
            let base = if base.contains('{') { format!("{base}}}") } else { base.to_owned() };
            buckets.entry(base).or_default().push((bound, *value));
        }
    }
    for (count, mut buckets) in buckets {
        buckets.sort_by(|one, other| one.0.total_cmp(&other.0));
        assert!(buckets.is_sorted_by(|one, other| one.1 <= other.1), "{count}");
        let (bound, all) = *buckets.last().unwrap();
        assert!(bound.is_infinite());
        assert_eq!(family.samples.get(&count), Some(&all), "{count}");
    }
}

fn sample(page: &BTreeMap<String, Family>, family: &str, series: &str) -> f64 {
    let family = page.get(family).unwrap_or_else(|| panic!("no {family}"));
    *family.samples.get(series).unwrap_or_else(|| panic!("no {series} in {family:?}"))
}

#[tokio::test]
async fn metrics_say_what_happened_and_do_not_grow_with_keys() {
    let (engine, _clock) = engine(&spec());
    let state = HttpState::new(Arc::clone(&engine), HttpSettings::default());
    let data = Running::of(Arc::new(state)).await;
    let mut state = AdminState::new(Arc::clone(&engine), Access::local());
    state.listeners.push(Arc::clone(&data.connections));
    state.sources.push(Arc::new(|page: &mut Page| {
        page.family("envoy_hits_total", Kind::Counter, "From elsewhere.");
        page.sample(&[("domain", "shop")], 7);
    }));
    let state = Arc::new(state);
    let server = Running::of(Arc::clone(&state)).await;
    let mut client = Client::connect(server.address).await;
    let before = parse(client.get("/metrics").await.text());

    let mut asker = Client::connect(data.address).await;
    for number in 0..50 {
        let path = format!("/v1/check?policy=api&key=k{number}\"%0a&cost=1");
        assert_eq!(asker.get(&path.replace('"', "%22")).await.status, 200);
        asker.send("BREW", &format!("/odd/{number}"), "", "").await;
    }
    for _ in 0..5 {
        for policy in ["api", "shadow"] {
            asker.post("/v1/check", &json!({"policy": policy, "key": "same"})).await;
        }
    }
    let answer = client.get("/metrics").await;
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let page = parse(answer.text());
    let count = |page: &BTreeMap<String, Family>| -> usize {
        page.values().map(|family| family.samples.len()).sum()
    };
    assert_eq!(count(&page), count(&before), "series grew with keys");
    let requests = |policy: &str, outcome: &str| {
        let mode = if policy == "shadow" { "shadow" } else { "enforce" };
        let labels = format!("{{policy=\"{policy}\",mode=\"{mode}\",outcome=\"{outcome}\"}}");
        sample(&page, "rate_limit_requests_total", &format!("rate_limit_requests_total{labels}"))
    };
    let is = |one: f64, other: u32| (one - f64::from(other)).abs() < f64::EPSILON;
    assert!(is(requests("api", "allowed"), 53) && is(requests("api", "denied"), 2));
    assert!(is(requests("shadow", "allowed"), 3) && is(requests("shadow", "shadow_denied"), 2));
    let get = |family: &str, labels: &str| sample(&page, family, &format!("{family}{labels}"));
    assert!(is(
        get("rate_limit_rejected_total", "{policy=\"api\",mode=\"enforce\",outcome=\"denied\"}"),
        2
    ));
    let pool = "{store=\"memory\",policy=\"api\",algorithm=\"log\"}";
    assert!(is(get("rate_limit_keys", pool), 51));
    assert!(get("rate_limit_memory_bytes", pool) > 0.0);
    // A quarter of the limit is kept for the overflow sketches.
    let usable = get("rate_limit_memory_limit_bytes", pool) * 0.75;
    let share = get("rate_limit_memory_bytes", pool) / usable;
    assert!((get("rate_limit_memory_used_ratio", pool) - share).abs() < 0.000_002);
    assert!(is(get("slidegate_connections_open", "{listener=\"http\"}"), 1));
    assert!(is(get("envoy_hits_total", "{domain=\"shop\"}"), 7));
    let decided = sample(
        &page,
        "rate_limit_decision_seconds",
        "rate_limit_decision_seconds_count{policy=\"api\",mode=\"enforce\"}",
    );
    assert!(is(decided, 55));
    state.reloads.add("ok", 1);
    state.reloads.add("failed", 1);
    state.reloads.add("failed", 1);
    let page = parse(client.get("/metrics").await.text());
    let reloads = "slidegate_config_reloads_total";
    assert!(is(sample(&page, reloads, &format!("{reloads}{{result=\"ok\"}}")), 1));
    assert!(is(sample(&page, reloads, &format!("{reloads}{{result=\"failed\"}}")), 2));
}

#[tokio::test]
async fn health_and_version() {
    let (engine, _clock) = engine(&spec());
    let (server, state) = admin(&engine).await;
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.get("/livez").await.json(), json!({"live": true}));
    let ready = client.get("/readyz").await;
    assert_eq!(ready.json(), json!({"ready": true, "reasons": [], "notes": []}));
    assert_eq!(client.send("HEAD", "/readyz", "", "").await.status, 200);
    state.is_ending.store(true, Ordering::Relaxed);
    let ready = client.get("/readyz").await;
    assert_eq!((ready.status, &ready.json()["ready"]), (503, &json!(false)));
    assert_eq!(ready.json()["reasons"], json!(["the process is shutting down"]));
    assert_eq!(client.get("/livez").await.status, 200);
    let version = client.get("/version").await.json();
    assert_eq!(version, json!({"name": "slidegate", "version": env!("CARGO_PKG_VERSION")}));
    assert_eq!(client.get("/metric").await.json()["nearest"], "/metrics");
    let wrong = client.send("DELETE", "/metrics", "", "").await;
    assert_eq!((wrong.status, wrong.field("allow")), (405, Some("GET, HEAD")));
}

#[tokio::test]
async fn only_health_is_served_without_the_token() {
    let (engine, _clock) = engine(&spec());
    let mut state = AdminState::new(engine, Access::token(TOKEN).unwrap());
    state.reload = Some(Arc::new(|_| Ok("done".to_owned())));
    state.pages.push(("/rlconfig", Arc::new(|| "domain: shop".to_owned())));
    let server = Running::of(Arc::new(state)).await;
    let mut client = Client::connect(server.address).await;
    let paths = [
        ("GET", "/metrics"),
        ("GET", "/version"),
        ("POST", "/-/reload"),
        ("GET", "/rlconfig"),
        ("GET", "/nothing"),
        ("DELETE", "/metrics"),
    ];
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    for (method, path) in paths {
        for fields in ["", "authorization: Bearer wrong-token-0123456\r\n"] {
            let answer = client.send(method, path, fields, "").await;
            assert_eq!(answer.status, 401, "{method} {path}");
            assert_eq!(answer.field("www-authenticate"), Some("Bearer"));
        }
        assert_ne!(client.send(method, path, &right, "").await.status, 401, "{method} {path}");
    }
    assert_eq!(client.get("/livez").await.status, 200);
    assert_eq!(client.get("/readyz").await.json(), json!({"ready": true}));
    let ready = client.send("GET", "/readyz", &right, "").await;
    assert_eq!(ready.json()["reasons"], json!([]));
    assert_eq!(client.send("GET", "/rlconfig", &right, "").await.text(), "domain: shop");
}

#[tokio::test]
async fn a_reload_is_done_or_refused_or_panics_and_the_process_lives() {
    let (engine, _clock) = engine(&spec());
    let mut state = AdminState::new(engine, Access::local());
    let turn = Arc::new(std::sync::atomic::AtomicU32::new(0));
    let turns = Arc::clone(&turn);
    state.reload = Some(Arc::new(move |_| match turns.fetch_add(1, Ordering::Relaxed) {
        0 => Ok("2 policies".to_owned()),
        1 => Err("line 3: no such word".to_owned()),
        _ => panic!("as the test wants it"),
    }));
    let server = Running::of(Arc::new(state)).await;
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.get("/-/reload").await.status, 405);
    let foreign = client.send("POST", "/-/reload", "origin: http://evil.test\r\n", "").await;
    assert_eq!((foreign.status, turn.load(Ordering::Relaxed)), (403, 0));
    let done = client.send("POST", "/-/reload", "", "").await;
    assert_eq!(done.json(), json!({"reloaded": true, "message": "2 policies"}));
    let refused = client.send("POST", "/-/reload", "", "").await;
    assert_eq!((refused.status, &refused.json()["detail"]), (422, &json!("line 3: no such word")));
    assert_eq!(client.send("POST", "/-/reload", "", "").await.status, 500);
    assert_eq!(client.get("/livez").await.status, 200);
}

fn shared(address: &str) -> Spec {
    let store = RedisSpec {
        place: RedisPlace::Single(address.to_owned()),
        deadline: Duration::from_millis(500),
        ..RedisSpec::default()
    };
    let policy = |name: &str, failure_mode| {
        let mut policy = PolicySpec::new(name, vec![Quota::per_minute(3)]);
        "shared".clone_into(&mut policy.store);
        policy.failure_mode = failure_mode;
        policy
    };
    Spec {
        stores: vec![StoreSpec::Redis("shared".to_owned(), Box::new(store))],
        policies: vec![
            policy("open", FailureMode::Allow),
            policy("closed", FailureMode::Deny),
            policy("here", FailureMode::Local),
        ],
        ..Spec::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_fails_makes_unready_only_where_it_denies() {
    let mut redis = tokio::task::spawn_blocking(RedisServer::start).await.unwrap().unwrap();
    let spec = shared(&redis.url());
    let engine = Arc::new(Engine::new(&spec, &mut slidegate_server::gates::NoRestore).unwrap());
    let (server, _) = admin(&engine).await;
    let data = Running::of(Arc::new(HttpState::new(engine.clone(), HttpSettings::default()))).await;
    let (mut client, mut asker) =
        (Client::connect(server.address).await, Client::connect(data.address).await);
    let asks = ["open", "closed", "here", "open"].map(|name| json!({"policy": name, "key": "a"}));
    let batch = json!({"asks": asks});
    let answers = asker.post("/v1/batch", &batch).await.json();
    let remaining = |index: usize| answers["answers"][index]["remaining"].as_u64().unwrap();
    assert_eq!([1, 2].map(remaining), [2, 2], "{answers}");
    // Concurrent asks of one key: a shared store may decide them in any order.
    let mut same = [0, 3].map(remaining);
    same.sort_unstable();
    assert_eq!(same, [1, 2], "{answers}");
    engine.refresh_stats().await;
    let page = parse(client.get("/metrics").await.text());
    let store = "{store=\"shared\"}";
    let get = |family: &str| sample(&page, family, &format!("{family}{store}"));
    assert!(get("rate_limit_store_memory_bytes") > 0.0);
    assert!(get("rate_limit_store_keys") >= 3.0);
    assert!(get("rate_limit_redis_calls_total") >= 3.0);
    assert!(get("rate_limit_redis_breaker_state") < 0.5);
    assert_eq!(client.get("/readyz").await.json()["ready"], true);

    redis.kill().unwrap();
    let unready = poll_async("the breaker to open", async || {
        asker.post("/v1/batch", &batch).await;
        (client.get("/readyz").await.status == 503).then_some(())
    });
    unready.await.unwrap();
    let denied = asker.post("/v1/check?status=429", &json!({"policy": "closed", "key": "b"})).await;
    assert_eq!(denied.status, 503);
    let open = asker.post("/v1/check", &json!({"policy": "open", "key": "b"})).await.json();
    assert_eq!((&open["allowed"], &open["degraded"]), (&json!(true), &json!(true)));
    // The store would return units of other requests for a receipt that it does not know.
    for path in ["/v1/check", "/v1/reserve"] {
        let here = asker.post(path, &json!({"policy": "here", "key": "b", "cost": 1})).await.json();
        assert_eq!((&here["allowed"], &here["degraded"]), (&json!(true), &json!(true)), "{path}");
        assert_eq!(here.get("receipt"), None, "{path}");
    }
    let peek = asker.post("/v1/peek", &json!({"policy": "open", "key": "b"})).await;
    assert_eq!((peek.status, peek.field("retry-after")), (503, Some("1")));
    assert!(!peek.text().contains("127.0.0.1"), "it reveals the store's address: {}", peek.text());
    // For a moment, while the breaker probes the store, the daemon is ready again.
    let unready = poll_async("the breaker to be open", async || {
        let ready = client.get("/readyz").await.json();
        if ready["ready"] == false {
            return Some(ready);
        }
        asker.post("/v1/batch", &batch).await;
        None
    });
    let ready = unready.await.unwrap();
    assert_eq!(ready["reasons"].as_array().unwrap().len(), 1, "{ready}");
    assert!(
        ready["reasons"][0].as_str().unwrap().contains("\"closed\" rejects requests"),
        "{ready}"
    );
    assert_eq!(ready["notes"].as_array().unwrap().len(), 2, "{ready}");
    assert_eq!(client.get("/livez").await.status, 200);
    // A store that does not reply delays no metrics.
    engine.refresh_stats().await;
    let page = parse(client.get("/metrics").await.text());
    assert!(!page.contains_key("rate_limit_store_memory_bytes"));
}
