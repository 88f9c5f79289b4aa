//! Forward auth: by itself, and behind a real nginx and a real Caddy.
//!
//! What could go wrong: a header or a spelling of the path with which a client evades its limit, uses
//! up that of another client, or is limited for a request that it did not make.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde_json::json;
use slidegate::{Cost, Quota};
use slidegate_gate::Rollout;
use slidegate_http::{ClientAddress, HopField};
use slidegate_server::http::{Handle, HttpSettings, HttpState, Peer, Reply};
use slidegate_server::spec::{KeyPart, MatchSpec, MissingKey, PolicySpec, RuleSpec, Spec};
use slidegate_testkit::server::{ReverseProxy, ServerError};

use crate::http_client::{Answer, Client, Running, engine};

const LIMIT: u64 = 3;

const ALICE: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(127, 0, 0, 3);

fn rule(name: &str, policy: &str, key: Vec<KeyPart>) -> RuleSpec {
    RuleSpec {
        name: name.to_owned(),
        matches: MatchSpec::default(),
        key,
        policy: policy.to_owned(),
        tier_header: None,
        cost: Cost::ONE,
        missing: MissingKey::Skip,
        ..RuleSpec::default()
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Logins are few; everything together is more; keys of a header, if there is one, are tiered.
fn spec() -> Spec {
    let policy = |name: &str, limit| {
        PolicySpec::new(name, vec![Quota::new(limit, Duration::from_secs(3600)).unwrap()])
    };
    let mut login = rule("login", "login", vec![KeyPart::Address]);
    login.matches.paths = texts(&["/login"]);
    login.matches.methods = texts(&["POST"]);
    let mut strict = rule("strict", "token", vec![KeyPart::Header("x-api-key".to_owned())]);
    strict.matches.paths = texts(&["/strict*"]);
    strict.missing = MissingKey::Deny;
    strict.tier_header = Some("x-plan".to_owned());
    let mut token = policy("token", 1);
    token.tiers.insert("gold".to_owned(), vec![Quota::per_hour(2)]);
    Spec {
        policies: vec![policy("login", LIMIT), policy("all", 1000), token],
        rules: vec![login, strict, rule("all", "all", vec![KeyPart::Address])],
        ..Spec::default()
    }
}

/// Trusts the proxies on 127.0.0.1.
async fn slidegate() -> Running {
    let (engine, _clock) = engine(&spec());
    let client =
        ClientAddress::builder().field(HopField::XForwardedFor).trust("127.0.0.1").build().unwrap();
    let settings = HttpSettings { client, ..HttpSettings::default() };
    Running::of(Arc::new(HttpState::new(engine, settings))).await
}

fn caddy(method: &str, uri: &str, client: &str) -> String {
    format!(
        "x-forwarded-method: {method}\r\nx-forwarded-uri: {uri}\r\nx-forwarded-for: {client}\r\n"
    )
}

fn nginx(method: &str, uri: &str, client: &str) -> String {
    format!("x-original-method: {method}\r\nx-original-uri: {uri}\r\nx-forwarded-for: {client}\r\n")
}

async fn ask(client: &mut Client, path: &str, fields: &str) -> Answer {
    client.send("GET", path, fields, "").await
}

#[tokio::test]
async fn all_rules_that_match_apply_and_a_denial_costs_nothing() {
    let server = slidegate().await;
    let mut proxy = Client::connect(server.address).await;
    for number in 1..=LIMIT {
        let family = if number % 2 == 0 { caddy } else { nginx };
        let answer = ask(&mut proxy, "/auth", &family("POST", "/login?next=/", "192.0.2.1")).await;
        assert_eq!(answer.status, 204);
        assert_eq!(answer.body, b"");
        let expected =
            format!("\"login\";r={};t=3600, \"all\";r={};t=3600", LIMIT - number, 1000 - number);
        assert_eq!(answer.field("ratelimit"), Some(expected.as_str()));
    }
    let denied = ask(&mut proxy, "/auth", &caddy("POST", "/login", "192.0.2.1")).await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.field("retry-after"), Some("3600"));
    assert_eq!(denied.field("cache-control"), Some("no-store"));
    assert_eq!(denied.field("content-type"), Some("application/problem+json"));
    assert_eq!(denied.json()["violated-policies"], json!(["login"]));
    let path = "/auth?status=403&problem=header";
    let denied = ask(&mut proxy, path, &caddy("POST", "/login", "192.0.2.1")).await;
    assert_eq!((denied.status, denied.field("retry-after")), (403, Some("3600")));
    assert_eq!(denied.field("x-ratelimit-problem"), Some(denied.text()));
    // What was denied was not counted against the other policy, whose key the API knows too.
    let usage = json!({"policy": "all", "key": "address=192.0.2.1"});
    assert_eq!(proxy.post("/v1/usage", &usage).await.json()["quotas"][0]["used"], LIMIT);
    for (method, uri, client) in [
        ("GET", "/login", "192.0.2.1"),
        ("POST", "/other", "192.0.2.1"),
        ("POST", "/login", "192.0.2.2"),
    ] {
        assert_eq!(ask(&mut proxy, "/auth", &caddy(method, uri, client)).await.status, 204);
    }
}

#[tokio::test]
async fn keys_of_headers_and_tiers() {
    let server = slidegate().await;
    let mut proxy = Client::connect(server.address).await;
    let fields = |more: &str| caddy("GET", "/strict/x", "192.0.2.1") + more;
    let missing = ask(&mut proxy, "/auth", &fields("")).await;
    assert_eq!(missing.status, 403);
    assert!(missing.text().contains("strict"), "{}", missing.text());
    assert_eq!(ask(&mut proxy, "/auth", &fields("x-api-key: a\r\n")).await.status, 204);
    assert_eq!(ask(&mut proxy, "/auth", &fields("x-api-key: a\r\n")).await.status, 429);
    assert_eq!(ask(&mut proxy, "/auth", &fields("x-api-key: b\r\n")).await.status, 204);
    let gold = fields("x-api-key: a\r\nx-plan: gold\r\n");
    assert_eq!(ask(&mut proxy, "/auth", &gold).await.status, 204);
    assert_eq!(ask(&mut proxy, "/auth", &gold).await.status, 429);
    // A tier that there is not is no tier.
    let none = fields("x-api-key: c\r\nx-plan: platinum\r\n");
    assert_eq!(ask(&mut proxy, "/auth", &none).await.status, 204);
    assert_eq!(ask(&mut proxy, "/auth", &none).await.status, 429);
    // The request without a key was not counted anywhere.
    let usage = json!({"policy": "all", "key": "address=192.0.2.1"});
    assert_eq!(proxy.post("/v1/usage", &usage).await.json()["quotas"][0]["used"], 4);
}

#[tokio::test]
async fn a_missing_key_denies_only_if_the_policy_is_enforced_for_all_keys() {
    let policies = [
        ("enforced", Rollout::Enforce, 100, 403, "enforce\",outcome=\"no_key"),
        ("some", Rollout::Enforce, 99, 204, "percentage\",outcome=\"shadow_denied"),
        ("shadow", Rollout::Shadow, 100, 204, "shadow\",outcome=\"shadow_denied"),
        ("off", Rollout::Off, 100, 204, "off\",outcome=\"off"),
    ];
    let mut spec = Spec::default();
    for (name, rollout, enforce_percent, ..) in policies {
        let policy = PolicySpec::new(name, vec![Quota::per_hour(1)]);
        spec.policies.push(PolicySpec { rollout, enforce_percent, ..policy });
        let mut rule = rule(name, name, vec![KeyPart::Header("x-api-key".to_owned())]);
        rule.matches.paths = vec![format!("/{name}")];
        rule.missing = MissingKey::Deny;
        spec.rules.push(rule);
    }
    let (engine, _clock) = engine(&spec);
    let state = HttpState::new(Arc::clone(&engine), HttpSettings::default());
    let server = Running::of(Arc::new(state)).await;
    let mut proxy = Client::connect(server.address).await;
    for (name, _, _, status, labels) in policies {
        let fields = caddy("GET", &format!("/{name}"), "192.0.2.1");
        assert_eq!(ask(&mut proxy, "/auth", &fields).await.status, status, "{name}");
        let line = format!("rate_limit_requests_total{{policy=\"{name}\",mode=\"{labels}\"}} 1\n");
        let metrics = engine.metrics().render();
        assert!(metrics.contains(&line), "{line} is not in\n{metrics}");
    }
}

#[tokio::test]
async fn who_is_no_proxy_is_not_answered_and_what_is_unclear_is_refused() {
    let server = slidegate().await;
    let mut stranger = Client::connect_from(ALICE, server.address).await;
    let good = caddy("GET", "/", "192.0.2.1");
    let answer = ask(&mut stranger, "/auth", &good).await;
    assert_eq!(answer.status, 403);
    assert!(answer.text().contains("trusted_proxies"), "{}", answer.text());
    let mut proxy = Client::connect(server.address).await;
    let both = good.clone() + "x-original-uri: /free\r\n";
    let twice = good.clone() + "x-forwarded-uri: /free\r\n";
    for (path, fields) in [
        ("/auth", ""),
        ("/auth", both.as_str()),
        ("/auth", &twice),
        ("/auth", "x-forwarded-uri: /\r\n"),
        ("/auth?headers=original", &good),
        ("/auth?headers=both", &good),
        ("/auth?status=500", &good),
        ("/auth?status=403&status=403", &good),
        ("/auth?next=/", &good),
    ] {
        assert_eq!(ask(&mut proxy, path, fields).await.status, 400, "{path} {fields}");
    }
    assert_eq!(ask(&mut proxy, "/auth?headers=forwarded", &both).await.status, 204);
    assert_eq!(proxy.send("POST", "/auth", &good, "").await.status, 405);
}

/// A service that counts its requests.
#[derive(Default)]
struct Upstream {
    served: AtomicU64,
}

impl Handle for Upstream {
    type Body = Full<Bytes>;

    async fn handle(&self, _: &mut Request<Incoming>, _: &Peer) -> Reply {
        self.served.fetch_add(1, Ordering::Relaxed);
        Response::new(Full::from("served"))
    }
}

/// The trace of every request.
const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

const PAGE: &str = include_str!("../../../../docs/forward-auth.md");

const NGINX: &str = include_str!("../../../../deploy/nginx/slidegate.conf");
const CADDY: &str = include_str!("../../../../deploy/caddy/Caddyfile");

#[test]
fn the_page_shows_the_deployment_files() {
    for (language, file) in [("nginx", NGINX), ("caddyfile", CADDY)] {
        let (_, after) = PAGE.split_once(&format!("```{language}\n")).unwrap();
        let (shown, _) = after.split_once("```").unwrap();
        let (comment, rest) = file.split_once("\n\n").unwrap();
        assert!(comment.lines().all(|line| line.starts_with('#')), "{comment}");
        assert_eq!(shown, rest, "{language}");
    }
}

/// A deployment file, with the ports of this test.
fn deployed(file: &str, port: u16, service: SocketAddr, slidegate: SocketAddr) -> String {
    for address in [":8000", "127.0.0.1:3000", "127.0.0.1:8080"] {
        assert!(file.contains(address), "{address} is not in the file");
    }
    file.replace(":8000", &format!(":{port}"))
        .replace("127.0.0.1:3000", &service.to_string())
        .replace("127.0.0.1:8080", &slidegate.to_string())
}

/// Returns forged headers that claim another client or another request, different for each number.
fn forged(number: usize) -> String {
    let kinds = [
        format!("X-Forwarded-For: 203.0.113.{number}\r\n"),
        format!("X-Forwarded-For: 203.0.113.{number}, 127.0.0.1\r\n"),
        "X-Original-URI: /free\r\nX-Original-Method: GET\r\n".to_owned(),
        "X-Forwarded-Uri: /free\r\nX-Forwarded-Method: GET\r\n".to_owned(),
        format!("Forwarded: for=203.0.113.{number}\r\nX-Real-IP: 203.0.113.{number}\r\n"),
        "X-Forwarded-Host: free.test\r\nX-Forwarded-Uri: /free\r\n".to_owned(),
        "X-Original-URI: /free\r\nX-Original-URI: /login\r\n".to_owned(),
    ];
    kinds[number % kinds.len()].clone() + &kinds[(number + 1) % kinds.len()]
}

/// One and the same place, to the service behind the proxy.
const SPELLINGS: [&str; 9] = [
    "/login",
    "//login",
    "/./login",
    "/%6cogin",
    "/a/../login?x=/free",
    "/login/",
    "/login;x=1",
    "/login%20",
    "/login/..;/..",
];

/// As many logins as the limit, whatever the client says; others are not touched by it.
async fn behind(
    start: impl Fn(SocketAddr, SocketAddr) -> Result<ReverseProxy, ServerError> + Send + 'static,
    down: u16,
) {
    let slidegate = slidegate().await;
    let upstream = Arc::new(Upstream::default());
    let service = Running::of(Arc::clone(&upstream)).await;
    let addresses = (service.address, slidegate.address);
    let proxy = tokio::task::spawn_blocking(move || start(addresses.0, addresses.1));
    let proxy = proxy.await.unwrap().unwrap();
    for (client, served) in [(ALICE, LIMIT), (BOB, 2 * LIMIT)] {
        for number in 0..20usize {
            let mut connection = Client::connect_from(client, proxy.address()).await;
            let path = SPELLINGS[number % SPELLINGS.len()];
            let length =
                format!("content-length: 0\r\ntraceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n");
            let answer = connection.send("POST", path, &(length + &forged(number)), "").await;
            let field = answer.field("ratelimit").unwrap_or_else(|| panic!("{answer:?}"));
            if (number as u64) < LIMIT {
                assert_eq!((answer.status, answer.text()), (200, "served"), "{path}");
                let left = LIMIT - 1 - number as u64;
                assert!(field.starts_with(&format!("\"login\";r={left};t=3600,")), "{field}");
            } else {
                assert_eq!(answer.status, 429, "{path} {answer:?}");
                assert_eq!(answer.field("retry-after"), Some("3600"));
                assert_eq!(answer.field("cache-control"), Some("no-store"));
                assert!(field.starts_with("\"login\";r=0;t=3600,"), "{field}");
                // The problem reaches the client, with the trace of its request.
                assert_eq!(answer.field("content-type"), Some("application/problem+json"));
                let problem = answer.json();
                assert_eq!(problem["violated-policies"], json!(["login"]), "{problem}");
                assert_eq!(
                    (&problem["status"], &problem["trace_id"]),
                    (&json!(429), &json!(TRACE))
                );
            }
            assert!(answer.field("ratelimit-policy").unwrap().starts_with("\"login\";q=3;w=3600"));
        }
        assert_eq!(upstream.served.load(Ordering::Relaxed), served);
        let mut connection = Client::connect_from(client, proxy.address()).await;
        assert_eq!(connection.get("/login").await.status, 200);
        upstream.served.fetch_sub(1, Ordering::Relaxed);
    }
    // Without the daemon, no request passes.
    slidegate.end().await.unwrap();
    let mut connection = Client::connect(proxy.address()).await;
    assert_eq!(connection.get("/").await.status, down);
    assert_eq!(upstream.served.load(Ordering::Relaxed), 2 * LIMIT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_as_documented_enforces_the_limit() {
    let start = |service, slidegate| {
        ReverseProxy::nginx_server(|port| deployed(NGINX, port, service, slidegate))
    };
    behind(start, 500).await;
}

// Configured as the page describes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nginx_fails_open_if_configured_so() {
    let (service, gone) = (Running::of(Arc::new(Upstream::default())).await, slidegate().await);
    let (service, absent) = (service.address, gone.address);
    gone.end().await.unwrap();
    let said = ["error_page 500 502 504 = @open;", "location @open { return 204; }"];
    assert!(said.iter().all(|line| PAGE.contains(line)));
    let start = move || {
        ReverseProxy::nginx_server(|port| {
            deployed(NGINX, port, service, absent)
                .replace("internal;", &format!("internal; {}", said[0]))
                .replace("location @limited", &format!("{} location @limited", said[1]))
        })
    };
    let proxy = tokio::task::spawn_blocking(start).await.unwrap().unwrap();
    let mut client = Client::connect(proxy.address()).await;
    assert_eq!(client.get("/").await.text(), "served");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn caddy_as_documented_enforces_the_limit() {
    let start =
        |service, slidegate| ReverseProxy::caddy(|port| deployed(CADDY, port, service, slidegate));
    behind(start, 502).await;
}

/// A second key for each of these would lift the limit of one.
#[tokio::test]
async fn repeated_key_headers_are_denied() {
    let server = slidegate().await;
    let mut proxy = Client::connect(server.address).await;
    let fields = |more: &str| caddy("GET", "/strict/x", "192.0.2.1") + more;
    assert_eq!(ask(&mut proxy, "/auth", &fields("x-api-key: valid\r\n")).await.status, 204);
    assert_eq!(ask(&mut proxy, "/auth", &fields("x-api-key: valid\r\n")).await.status, 429);
    for number in 0..30 {
        for more in [
            format!("x-api-key: valid\r\nx-api-key: junk{number}\r\n"),
            format!("x-api-key: junk{number}\r\nX-API-KEY: valid\r\n"),
            format!("x-api-key: valid, junk{number}\r\n"),
            format!("x-api-key: valid,junk{number}\r\n"),
            format!("x-api-key: valid\r\nx-api-key:\r\nx-api-key: junk{number}\r\n"),
        ] {
            let answer = ask(&mut proxy, "/auth", &fields(&more)).await;
            assert_eq!(answer.status, 403, "{more}: {}", answer.text());
            assert!(answer.text().contains("several values"), "{}", answer.text());
        }
    }
    // The tier's header may lower a limit too.
    let tiers = fields("x-api-key: other\r\nx-plan: gold\r\nx-plan: none\r\n");
    assert_eq!(ask(&mut proxy, "/auth", &tiers).await.status, 403);
}

#[tokio::test]
async fn spellings_of_a_path_do_not_bypass_its_rule() {
    let server = slidegate().await;
    let mut proxy = Client::connect(server.address).await;
    for _ in 0..LIMIT {
        let fields = caddy("POST", "/login", "192.0.2.1");
        assert_eq!(ask(&mut proxy, "/auth", &fields).await.status, 204);
    }
    for uri in [
        "/login",
        "/login;x=1",
        "/login/",
        "/login%20",
        "/login;jsessionid=1?x",
        "/login%3bx",
        "/login%00",
        "/login%0a",
        "/login%09/",
        "/;x/login",
        "//login//",
        "/./login/.",
        "/%6cogin/",
        "\\login",
        "/%5clogin",
        "/%2flogin%2f",
        "/a/..;/login",
        "/a/%2e%2e;x/login",
        "/login/..;/..",
        "/login#top",
        "/a#/../login",
        "http://shop.test/login/",
    ] {
        let answer = ask(&mut proxy, "/auth", &caddy("POST", uri, "192.0.2.1")).await;
        assert_eq!(answer.status, 429, "{uri}");
    }
    for uri in ["/", "/logins", "/login/x", "/Login", "/x/login"] {
        let answer = ask(&mut proxy, "/auth", &caddy("POST", uri, "192.0.2.1")).await;
        assert_eq!(answer.status, 204, "{uri}");
    }
}
