//! The page, `top`, the state document, the API and `/metrics` show the same numbers.

use std::net::TcpStream;

use serde_json::{Value, json};
use slidegate_testkit::server::{Browser, RedisServer, poll};

use super::{POLICIES, opened, policy, state};
use crate::process::{Daemon, Folder, output, post};

/// The samples of `/metrics`.
struct Samples(String);

impl Samples {
    fn of(daemon: &Daemon) -> Self {
        Self(daemon.admin("GET", "/metrics").1)
    }

    /// All samples of a metric whose labels contain every one of `labels`, such as `,policy="api"`.
    fn values(&self, name: &str, labels: &[String]) -> Vec<f64> {
        let lines = self.0.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix('{'));
        let lines = lines.map(|line| format!(",{line}"));
        let wanted = lines.filter(|line| labels.iter().all(|label| line.contains(label)));
        wanted.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect()
    }

    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<String> =
            labels.iter().map(|(name, value)| format!(",{name}=\"{value}\"")).collect();
        self.values(name, &labels).into_iter().sum()
    }
}

/// Numbers of the state document, compared with those of `/metrics`.
struct Pairs<'a> {
    metrics: &'a Samples,
    /// What it is, what the document has, and what the metrics have.
    list: Vec<(String, f64, f64)>,
}

const REQUESTS: [&str; 3] = ["allowed", "denied", "would_be_denied"];

impl Pairs<'_> {
    fn of(state: &Value, metrics: &Samples) -> Vec<(String, f64, f64)> {
        let mut pairs = Pairs { metrics, list: Vec::new() };
        let mut totals = [0.0; 3];
        for policy in state["policies"].as_array().unwrap() {
            for (total, sum) in totals.iter_mut().zip(pairs.add_policy(policy)) {
                *total += sum;
            }
        }
        for (what, total) in REQUESTS.into_iter().zip(totals) {
            pairs.add(&format!("all: {what}"), &state["totals"]["requests"][what], total);
        }
        for (what, name) in [
            ("keys", "rate_limit_keys"),
            ("bytes", "rate_limit_memory_bytes"),
            ("evictions", "rate_limit_evictions_total"),
            ("overflowed", "rate_limit_overflowed_total"),
            ("expired", "rate_limit_swept_total"),
        ] {
            pairs.add(name, &state["memory"][what], metrics.sum(name, &[]));
        }
        for store in state["stores"].as_array().unwrap() {
            pairs.add_store(store);
        }
        for listener in state["listeners"].as_array().unwrap() {
            pairs.add_listener(listener);
        }
        for result in ["ok", "failed"] {
            let metric = metrics.sum("slidegate_config_reloads_total", &[("result", result)]);
            pairs.add(&format!("reloads: {result}"), &state["reloads"][result], metric);
        }
        pairs.list
    }

    fn add(&mut self, what: &str, shown: &Value, metric: f64) {
        let shown = shown.as_f64().unwrap_or_else(|| panic!("{what} is {shown}"));
        self.list.push((what.to_owned(), shown, metric));
    }

    /// Returns the requests that were allowed, denied, and would have been denied, of the metrics.
    fn add_policy(&mut self, policy: &Value) -> [f64; 3] {
        let (name, mode) = (policy["name"].as_str().unwrap(), policy["mode"].as_str().unwrap());
        let (metrics, labels) = (self.metrics, [("policy", name), ("mode", mode)]);
        let of = |what: &str| format!("{name} {mode}: {what}");
        let outcomes = |name: &str, labels: &[(&str, &str)], outcome: &str| {
            metrics.sum(name, &[labels, &[("outcome", outcome)]].concat())
        };
        for (outcome, count) in policy["outcomes"].as_object().unwrap() {
            let metric = outcomes("rate_limit_requests_total", &labels, outcome);
            self.add(&of(outcome), count, metric);
        }
        let sums = [
            outcomes("rate_limit_requests_total", &labels, "allowed"),
            metrics.sum("rate_limit_rejected_total", &labels),
            outcomes("rate_limit_requests_total", &labels, "shadow_denied"),
        ];
        for (what, sum) in REQUESTS.into_iter().zip(sums) {
            self.add(&of(what), &policy["requests"][what], sum);
        }
        for (what, name) in
            [("degraded", "rate_limit_degraded_total"), ("waited", "rate_limit_waited_total")]
        {
            self.add(&of(what), &policy[what], metrics.sum(name, &labels));
        }
        if let Some(candidate) = policy.get("candidate") {
            let changed = |before: &str, after: &str| {
                let labels = [&labels[..], &[("candidate_outcome", after)]].concat();
                outcomes("rate_limit_candidate_total", &labels, before)
            };
            let newly_denied = changed("allowed", "denied");
            let would_deny = newly_denied + changed("denied", "denied");
            self.add(&of("newly denied"), &candidate["newly_denied"], newly_denied);
            let newly_allowed = changed("denied", "allowed");
            self.add(&of("newly allowed"), &candidate["newly_allowed"], newly_allowed);
            self.add(&of("would deny"), &candidate["would_deny"], would_deny);
        }
        sums
    }

    fn add_store(&mut self, store: &Value) {
        let label = format!(",store=\"{}\"", store["name"].as_str().unwrap());
        for (name, value) in store["stats"].as_object().unwrap() {
            let (name, kind) = name.split_once('.').unwrap_or((name, ""));
            let kind = (!kind.is_empty()).then(|| format!("=\"{kind}\""));
            let labels: Vec<String> = [label.clone()].into_iter().chain(kind).collect();
            let values = self.metrics.values(name, &labels).into_iter();
            // The longest time of all policies; counts and bytes are added.
            let metric =
                if name.ends_with("_seconds") { values.fold(0.0, f64::max) } else { values.sum() };
            self.add(&format!("{name} {labels:?}"), value, metric);
        }
    }

    fn add_listener(&mut self, listener: &Value) {
        let name = listener["name"].as_str().unwrap();
        for (what, metric) in [
            ("open", "slidegate_connections_open"),
            ("max", "slidegate_connections_max"),
            ("accepted", "slidegate_connections_total"),
            ("refused", "slidegate_connections_refused_total"),
            ("cut", "slidegate_connections_cut_total"),
        ] {
            // The document and the metrics come over connections of their own.
            if name != "admin" || what == "max" {
                let metric = self.metrics.sum(metric, &[("listener", name)]);
                self.add(&format!("{name}: {what}"), &listener[what], metric);
            }
        }
    }
}

/// Waits until a state document and `/metrics` agree: a store works in the background meanwhile.
fn agree(daemon: &Daemon, read: impl Fn() -> Value) -> Value {
    let mut differ = Vec::new();
    let agreed = poll("the same numbers", || {
        let (state, metrics) = (read(), Samples::of(daemon));
        let pairs = Pairs::of(&state, &metrics);
        assert!(pairs.len() > 100, "only {} numbers were compared", pairs.len());
        let is_different = |(_, shown, metric): &(String, f64, f64)| (shown - metric).abs() > 1e-9;
        differ = pairs.into_iter().filter(is_different).collect();
        Ok(differ.is_empty().then_some(state))
    });
    agreed.unwrap_or_else(|error| panic!("{error}: shown, in /metrics: {differ:#?}"))
}

/// A daemon with policies of every kind, after some requests to each.
fn busy(folder: &Folder, redis: &RedisServer) -> Daemon {
    let text = format!(
        "{POLICIES}  - {{name: uploads, quotas: [2/hour], enforce_percent: 50}}\n  \
         - {{name: orders, quotas: [3/hour], store: shared, failure_mode: allow}}\n\
         stores: {{shared: {{redis: \"{}\", deadline: 10s}}}}\n",
        redis.url()
    );
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &text));
    assert_eq!(daemon.allowed("api", "alice", 7), 5);
    assert_eq!(daemon.allowed("search", "bob", 3), 3);
    assert_eq!(daemon.allowed("exports", "carol", 5), 4);
    assert_eq!(daemon.allowed("login", "dave", 4), 3);
    assert_eq!(daemon.allowed("orders", "erin", 4), 3);
    for key in 0..10 {
        daemon.allowed("uploads", &format!("user-{key}"), 3);
    }
    daemon
}

#[test]
fn the_state_document_and_top_show_the_numbers_of_the_metrics() {
    let folder = Folder::new("numbers_state");
    let mut redis = RedisServer::start().unwrap();
    let daemon = busy(&folder, &redis);
    let document = agree(&daemon, || state(&daemon));
    let uploads = &policy(&document, "uploads")["requests"];
    let part = |what: &str| uploads[what].as_u64().unwrap();
    assert_eq!(part("allowed"), 20);
    assert_eq!(part("denied") + part("would_be_denied"), 10);

    folder.write("limits.yaml", "slidegate: 1\npolicies: [{name: api, quotas: [many]}]\n");
    assert_eq!(daemon.admin("POST", "/-/reload").0, 422);
    redis.kill().unwrap();
    poll("a store that does not reply", || {
        daemon.check("orders", "erin");
        let state = state(&daemon);
        let is_degraded = policy(&state, "orders")["degraded"].as_u64() > Some(0);
        let mut stores = state["stores"].as_array().unwrap().iter();
        let is_down = stores.any(|store| store["is_available"] == false);
        Ok((is_degraded && is_down).then_some(()))
    })
    .unwrap();
    agree(&daemon, || state(&daemon));

    let address = daemon.announced("dashboard").to_string();
    let top = |arguments: &[&str]| {
        let top = output(&[&["top", "--address", &address], arguments].concat());
        assert!(top.status.success(), "{top:?}");
        String::from_utf8(top.stdout).unwrap()
    };
    let document = agree(&daemon, || serde_json::from_str(&top(&["--json"])).unwrap());
    let text = top(&["--once"]);
    let memory = &document["memory"];
    for words in [
        format!("keys {}  ", memory["keys"]),
        format!("evicted {}  overflowed {}", memory["evictions"], memory["overflowed"]),
        "reload failed".to_owned(),
        "50%".to_owned(),
    ] {
        assert!(text.contains(&words), "{words:?} is missing:\n{text}");
    }
    // It is down, or a call finds out whether it still is.
    assert!(text.contains("memory ok") && !text.contains("shared ok"), "{text}");
}

/// The text of what the page shows for a value of its state. The expression is evaluated in the
/// page, with `state`.
fn shown(browser: &Browser, selector: &str, expression: &str) -> [String; 2] {
    let script = format!(
        "const found = document.querySelector(arguments[0]); \
         return [found ? found.textContent : '(nothing)', String({expression})]"
    );
    let both = browser.run(&script, &[json!(selector)]).unwrap();
    [0, 1].map(|place| both[place].as_str().unwrap().to_owned())
}

#[test]
fn the_page_shows_the_numbers_of_the_state_document() {
    let folder = Folder::new("numbers_page");
    let redis = RedisServer::start().unwrap();
    let daemon = busy(&folder, &redis);
    let browser = opened(&daemon);
    // What the page has is compared with `/metrics`, too.
    let of_page = || {
        serde_json::from_str(
            browser.run("return JSON.stringify(state)", &[]).unwrap().as_str().unwrap(),
        )
    };
    agree(&daemon, || of_page().unwrap());
    let cell = |policy: &str, column: u32, kind: &str| {
        format!("#policy-rows tr[data-key='{policy}'] td:nth-child({column}) {kind}")
    };
    let of = |name: &str, rest: &str| {
        format!("state.policies.find((policy) => policy.name === '{name}').{rest}")
    };
    let store = |name: &str, place: u32| {
        format!("#store-rows > [data-key='{name}'] .facts > :nth-child({place}) dd")
    };
    let stat = |name: &str, metric: &str| {
        format!("state.stores.find((store) => store.name === '{name}').stats.{metric}")
    };
    let listener = |place: u32| format!("#listener-rows [data-key='http'] td:nth-child({place})");
    let http = "state.listeners.find((listener) => listener.name === 'http')";
    for (selector, expression) in [
        ("#allowed".to_owned(), "rate(state.totals.per_second.allowed)".to_owned()),
        ("#denied".to_owned(), "rate(state.totals.per_second.denied)".to_owned()),
        ("#would".to_owned(), "rate(state.totals.per_second.would_be_denied)".to_owned()),
        ("#p99".to_owned(), "seconds(state.latency.p99)".to_owned()),
        ("#p50".to_owned(), "seconds(state.latency.p50)".to_owned()),
        ("#memory-keys".to_owned(), "state.memory.keys".to_owned()),
        (
            "#memory-text".to_owned(),
            "`${bytes(state.memory.bytes)} of ${bytes(state.memory.budget)}`".to_owned(),
        ),
        ("#evictions".to_owned(), "state.memory.evictions".to_owned()),
        ("#overflowed".to_owned(), "state.memory.overflowed".to_owned()),
        (cell("api enforce", 4, "small"), format!("{} + ' in all'", of("api", "requests.allowed"))),
        (cell("api enforce", 5, "small"), format!("{} + ' in all'", of("api", "requests.denied"))),
        (
            cell("search shadow", 6, "small"),
            format!("{} + ' in all'", of("search", "requests.would_be_denied")),
        ),
        (cell("api enforce", 2, ""), of("api", "quotas[0].text")),
        (store("memory", 1), stat("memory", "rate_limit_keys")),
        (store("memory", 3), stat("memory", "rate_limit_evictions_total")),
        (store("shared", 2), stat("shared", "rate_limit_redis_calls_total")),
        (store("shared", 3), stat("shared", "rate_limit_redis_degraded_total")),
        (store("shared", 4), stat("shared", "rate_limit_redis_timeouts_total")),
        (listener(2), format!("`${{{http}.open}} / ${{{http}.max}}`")),
        (listener(3), format!("{http}.accepted")),
        (listener(4), format!("{http}.refused")),
    ] {
        let [text, expected] = shown(&browser, &selector, &expression);
        assert_eq!(text, expected, "{selector}: {expression}");
    }
    // Not only the same formula: the number that this test has caused.
    assert_eq!(shown(&browser, &cell("api enforce", 4, "small"), "0")[0], "5 in all");
    assert_eq!(shown(&browser, &cell("orders enforce", 5, "small"), "0")[0], "1 in all");
}

#[test]
fn a_key_has_the_numbers_of_the_api() {
    let folder = Folder::new("numbers_key");
    let redis = RedisServer::start().unwrap();
    let daemon = busy(&folder, &redis);
    for (policy, key) in [("api", "alice"), ("orders", "erin"), ("exports", "carol")] {
        let name = json!({"policy": policy, "key": key}).to_string();
        let ask = |path: &str| -> Value {
            let (status, body) = post(TcpStream::connect(daemon.http).unwrap(), path, &name);
            assert_eq!(status, 200, "{path}: {body}");
            serde_json::from_str(&body).unwrap()
        };
        let (peek, usage, history) = (ask("/v1/peek"), ask("/v1/usage"), ask("/v1/history"));
        let admin = TcpStream::connect(daemon.announced("dashboard")).unwrap();
        let (status, key) = post(admin, "/dashboard/key", &name);
        assert_eq!(status, 200, "{key}");
        let key: Value = serde_json::from_str(&key).unwrap();
        assert_eq!(key["is_allowed"], peek["allowed"], "{policy}");
        assert_eq!(key["remaining"], peek["remaining"], "{policy}");
        assert_eq!(key["quotas"][0]["limit"], peek["limit"], "{policy}");
        assert_eq!(key["quotas"][0]["used"], usage["quotas"][0]["used"], "{policy}");
        let events = history["events"].as_array().unwrap();
        assert!(!events.is_empty(), "{policy}: {history}");
        let units = |event: &Value| event["units"].clone();
        let of_page = key["events"].as_array().unwrap().iter().map(|event| event[1].clone());
        assert!(of_page.eq(events.iter().map(units)), "{policy}: {key} {history}");
        let wait = |reply: &Value| reply["retry_after"].as_f64().unwrap_or(0.0);
        // Asked later, so the wait is shorter.
        assert!(wait(&key) <= wait(&peek) && wait(&peek) - wait(&key) < 60.0, "{key} {peek}");
    }
}
