//! One policy file through the tower layer and through the daemon: the same decisions and the same
//! metrics, request by request.

use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;

use http::{HeaderMap, Request, Response};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use slidegate::ManualClock;
use slidegate_server::config::{self, Loaded};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_testkit::Random;
use slidegate_testkit::server::RedisServer;
use slidegate_tower::{KeyBy, RateLimitLayer, Rule};
use tower::{Layer, ServiceExt, service_fn};

use crate::http_client::{Client, EPOCH, Running};

/// Tiers, shadow, percentage, candidate, two stores.
const FILE: &str = r#"
stores:
  shared: {redis: "URL", prefix: PREFIX, deadline: 30s, connect_deadline: 30s}
policies:
  - name: user
    quotas: [4/minute, 40/hour]
    tiers: {gold: [9/minute, 90/hour]}
    candidate: {quotas: [2/minute]}
  - {name: burst, quotas: [3/second], algorithm: gcra}
  - {name: watched, quotas: [2/minute], mode: shadow}
  - {name: partly, quotas: [3/minute], enforce_percent: 50, algorithm: counter}
  - {name: off, quotas: [1/day], mode: off}
  - {name: shared, quotas: [600/day], store: shared, tiers: {gold: [700/day]}, deny_cache: 0}
"#;

const POLICIES: [&str; 6] = ["user", "burst", "watched", "partly", "off", "shared"];

fn load(server: &RedisServer, prefix: &str) -> Loaded {
    let file = format!("same_gate_{prefix}.yaml");
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(file);
    let text = FILE.replace("URL", &server.url()).replace("PREFIX", prefix);
    std::fs::write(&path, text).unwrap();
    config::load(&config::Request::new([path])).unwrap_or_else(|refused| panic!("{refused}"))
}

fn engine(loaded: &Loaded) -> (Arc<Engine>, ManualClock) {
    let clock = ManualClock::new(EPOCH);
    let engine = Engine::with_clock(&loaded.spec, Some(clock.clone()), &mut NoRestore).unwrap();
    (Arc::new(engine), clock)
}

/// The gates of an engine as a tower layer.
fn layer(engine: &Engine) -> RateLimitLayer {
    let plan = engine.plan();
    let builder = POLICIES.into_iter().fold(RateLimitLayer::builder(), |builder, name| {
        let gate = plan.gate(name).unwrap();
        let gold = gate.tier("gold");
        let has_gold = |headers: &HeaderMap| headers.contains_key("x-gold");
        let rule = Rule::new((**gate).clone())
            .key(KeyBy::header("x-user"))
            .tier_by(move |head| gold.filter(|_| has_gold(head.headers())));
        builder.rule(rule)
    });
    // Long keys would be hashed; these are not.
    builder.secret([7; 16]).build().unwrap()
}

/// What a client sees: the status, the fields and, of a denial, the policies that caused it.
#[derive(Debug, PartialEq)]
struct ClientView {
    status: u16,
    fields: Vec<(&'static str, Option<String>)>,
    violated: Value,
}

impl ClientView {
    fn new(status: u16, field: impl Fn(&str) -> Option<String>, body: &[u8]) -> Self {
        let names = [
            "ratelimit",
            "ratelimit-policy",
            "x-ratelimit-limit",
            "x-ratelimit-remaining",
            "retry-after",
            "cache-control",
        ];
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        let fields = names.map(|name| (name, field(name).map(|value| without_redis_time(&value))));
        Self { status, fields: fields.into(), violated: body["violated-policies"].clone() }
    }
}

/// Leaves out the seconds of the policy in Redis: its clock runs while the test does.
fn without_redis_time(value: &str) -> String {
    let parts = value.split(", ").map(|part| match part.split_once(";t=") {
        Some((head, _)) if head.starts_with("\"shared\"") => head,
        _ => part,
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// All metrics except those that depend on time, on how calls to Redis were batched, or on the random secret,
/// which decides how keys spread over shards.
fn metrics(engine: &Engine) -> Vec<String> {
    let text = engine.metrics().render();
    let varies = |line: &&str| {
        let parts = [
            "_seconds_bucket",
            "_seconds_sum",
            "lock_hold",
            "rate_limit_redis_",
            "rate_limit_memory_bytes",
            "rate_limit_memory_used_ratio",
        ];
        parts.iter().any(|part| line.contains(part))
            && !line.starts_with("rate_limit_redis_decisions_total")
    };
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter(|line| !varies(line))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tower_and_the_daemon_decide_and_count_alike() {
    let server = RedisServer::start().unwrap();
    let (one, tower_clock) = engine(&load(&server, "tower"));
    let (two, daemon_clock) = engine(&load(&server, "daemon"));
    let service = layer(&one).layer(service_fn(|_: Request<()>| async {
        Ok::<_, Infallible>(Response::new(String::new()))
    }));
    let state = HttpState::new(Arc::clone(&two), HttpSettings::default());
    let daemon = Running::of(Arc::new(state)).await;
    let mut client = Client::connect(daemon.address).await;

    let mut random = Random::new(11);
    let mut statuses = [0; 2];
    for number in 0..400 {
        let user = random.pick(&["alice", "bob", "carol", "dave"]);
        let is_gold = random.chance(33);
        let mut request = Request::builder().header("x-user", user);
        if is_gold {
            request = request.header("x-gold", "1");
        }
        let response = service.clone().oneshot(request.body(()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let field = |name: &str| Some(parts.headers.get(name)?.to_str().unwrap().to_owned());
        let by_tower = ClientView::new(parts.status.as_u16(), field, &body);

        // The layer's key of a header value: its kind, its length, its bytes.
        let key = format!("v\0{}{user}", char::from(u8::try_from(user.len()).unwrap()));
        let ask = |policy: &&str| match (is_gold, *policy) {
            (true, "user" | "shared") => json!({"policy": policy, "key": key, "tier": "gold"}),
            _ => json!({"policy": policy, "key": key}),
        };
        let asks: Vec<Value> = POLICIES.iter().map(ask).collect();
        let answer = client.post("/v1/check_all?status=429", &json!({"asks": asks})).await;
        let field = |name: &str| answer.field(name).map(str::to_owned);
        let by_daemon = ClientView::new(answer.status, field, &answer.body);

        assert_eq!(by_tower, by_daemon, "request {number} of {user}");
        statuses[usize::from(by_tower.status == 429)] += 1;
        let step = std::time::Duration::from_millis(random.between(0, 1500));
        tower_clock.advance(step);
        daemon_clock.advance(step);
    }
    assert!(statuses.iter().all(|count| *count > 50), "{statuses:?}");

    let (by_tower, by_daemon) = (metrics(&one), metrics(&two));
    assert_eq!(by_tower, by_daemon);
    for (policy, mode, outcome) in [
        ("user", "enforce", "denied"),
        ("watched", "shadow", "shadow_denied"),
        ("partly", "percentage", "shadow_denied"),
        ("partly", "percentage", "denied"),
        ("shared", "enforce", "denied_by_other"),
        ("off", "off", "off"),
    ] {
        let series = format!(
            r#"rate_limit_requests_total{{policy="{policy}",mode="{mode}",outcome="{outcome}"}} "#
        );
        let line = by_tower.iter().find_map(|line| line.strip_prefix(&series)).unwrap();
        assert_ne!(line, "0", "{series}");
    }
    assert!(by_tower.iter().any(|line| line.starts_with("rate_limit_candidate_total{")));
}
