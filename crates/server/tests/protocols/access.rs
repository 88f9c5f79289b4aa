//! What clients may do over HTTP and the Redis protocol, and what pages of other sites may not.

use std::sync::Arc;

use arc_swap::ArcSwap;
use serde_json::json;
use slidegate::Quota;
use slidegate_server::access::{
    Access, AccessRules, Exposure, HostNames, Scope, SharedRules, Token,
};
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_server::spec::{PolicySpec, Spec};

use crate::http_client::{Client, JSON, Running, engine};

const APP: &str = "token-of-the-app-01";
const EYE: &str = "token-of-the-eye-02";
const OPS: &str = "token-of-the-ops-03";

/// Three tokens with more and more scopes.
pub(crate) fn rules(anonymous: Option<&[Scope]>) -> SharedRules {
    let token = |text: &str, scopes: &[Scope]| {
        (Token::new(text.as_bytes()).unwrap(), scopes.iter().copied().collect())
    };
    let tokens = vec![
        token(APP, &[Scope::Check]),
        token(EYE, &[Scope::Check, Scope::Look]),
        token(OPS, &Scope::ALL),
    ];
    let anonymous = anonymous.map(|scopes| scopes.iter().copied().collect());
    Arc::new(ArcSwap::from_pointee(AccessRules { tokens, anonymous }))
}

async fn api(access: Access, names: HostNames) -> Running {
    let policies = vec![PolicySpec::new("api", vec![Quota::per_minute(1000)])];
    let (engine, _) = engine(&Spec { policies, ..Spec::default() });
    let settings = HttpSettings { access, names, ..HttpSettings::default() };
    Running::of(Arc::new(HttpState::new(engine, settings))).await
}

/// The statuses of requests that check, look and change, with these fields.
async fn statuses(server: &Running, fields: &str) -> [Vec<u16>; 3] {
    let check = json!({"policy": "api", "key": "k"});
    let receipt = json!({"policy": "api", "key": "k", "receipt": "BQG1mZiSnjQB"});
    let settle = json!({"policy": "api", "key": "k", "receipt": "BQG1mZiSnjQB", "actual": 1});
    let asks = json!({"asks": [check]});
    let groups = [
        vec![
            ("/v1/check", &check),
            ("/v1/reserve", &check),
            ("/v1/check_all", &asks),
            ("/v1/batch", &asks),
        ],
        vec![("/v1/peek", &check), ("/v1/usage", &check), ("/v1/history", &check)],
        vec![("/v1/refund", &receipt), ("/v1/settle", &settle), ("/v1/reset", &check)],
    ];
    let mut all = [const { Vec::new() }; 3];
    for (requests, statuses) in groups.into_iter().zip(&mut all) {
        for (path, body) in requests {
            let mut client = Client::connect(server.address).await;
            let fields = format!("{JSON}{fields}");
            let answer = client.send("POST", path, &fields, &body.to_string()).await;
            // Whether the request makes sense is another question.
            let is_refused = [401, 403].contains(&answer.status);
            statuses.push(if is_refused { answer.status } else { 200 });
        }
    }
    all
}

fn bearer(token: &str) -> String {
    format!("authorization: Bearer {token}\r\n")
}

#[tokio::test]
async fn beyond_loopback_clients_only_check_until_a_token_is_configured() {
    let access = Access::new(SharedRules::default(), Exposure::Network);
    let server = api(access, HostNames::default()).await;
    let expected = [vec![200; 4], vec![403; 3], vec![403; 3]];
    assert_eq!(statuses(&server, "").await, expected);
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.get("/v1/check?policy=api&key=k").await.status, 200);
    assert_eq!(client.get("/v1/policies").await.status, 200);
    let refused = client.post("/v1/reset", &json!({"policy": "api", "key": "k"})).await;
    let detail = refused.json()["detail"].to_string();
    assert!(detail.contains("`change` is off beyond loopback") && detail.contains("access.tokens"));
    // On loopback all is as before.
    let server = api(Access::open(), HostNames::default()).await;
    assert_eq!(statuses(&server, "").await, [vec![200; 4], vec![200; 3], vec![200; 3]]);
}

#[tokio::test]
async fn tokens_allow_their_scopes() {
    let server = api(Access::new(rules(None), Exposure::Network), HostNames::default()).await;
    for (fields, expected) in [
        (String::new(), [200, 401, 401]),
        (bearer(APP), [200, 403, 403]),
        (bearer(EYE), [200, 200, 403]),
        (bearer(OPS), [200, 200, 200]),
        (format!("x-slidegate-token: {OPS}\r\n"), [200, 200, 200]),
        (bearer("token-of-no-client"), [401, 401, 401]),
    ] {
        let found = statuses(&server, &fields).await;
        let expected: Vec<Vec<u16>> =
            expected.iter().zip(&found).map(|(status, all)| vec![*status; all.len()]).collect();
        assert_eq!(found.to_vec(), expected, "{fields}");
    }
}

// `Authorization` of such a request is that of the end user.
#[tokio::test]
async fn forward_auth_has_a_header_of_its_own_for_the_token() {
    let original = "x-forwarded-method: GET\r\nx-forwarded-uri: /\r\norigin: http://shop.test\r\n\
                    sec-fetch-site: cross-site\r\n";
    let user = bearer("the-token-of-some-user");
    for (anonymous, fields, status) in [
        (None, user.clone(), 204),
        (Some(&[][..]), user.clone(), 401),
        (Some(&[][..]), bearer(APP), 401),
        (Some(&[][..]), format!("{user}x-slidegate-token: {APP}\r\n"), 204),
    ] {
        let access = Access::new(rules(anonymous), Exposure::Network);
        let server = api(access, HostNames::new(&[], true)).await;
        let mut client = Client::connect(server.address).await;
        let answer = client.send("GET", "/auth", &format!("{original}{fields}"), "").await;
        assert_eq!(answer.status, status, "{anonymous:?} {fields}");
    }
}

#[tokio::test]
async fn a_page_of_another_site_takes_no_units() {
    let server = api(Access::open(), HostNames::new(&["limits.internal".to_owned()], true)).await;
    let json = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k"}]}]}"#;
    let requests = [
        ("GET", "/v1/check?policy=api&key=k", ""),
        ("POST", "/json", json),
        ("GET", "/v1/policies", ""),
    ];
    for (method, path, body) in requests {
        for (fields, is_foreign) in [
            ("host: 127.0.0.1:8080", false),
            ("host: localhost", false),
            ("host: limits.internal", false),
            ("host: limits.internal\r\norigin: http://limits.internal", false),
            ("host: 127.0.0.1:8080\r\nsec-fetch-site: none", false),
            ("host: evil.test", true),
            ("host: evil.test\r\norigin: http://evil.test", true),
            ("host: 127.0.0.1:8080\r\norigin: http://evil.test", true),
            ("host: 127.0.0.1:8080\r\norigin: null", true),
            ("host: 127.0.0.1:8080\r\nsec-fetch-site: cross-site", true),
        ] {
            let mut client = Client::connect(server.address).await;
            let length = body.len();
            let head = format!("{method} {path} HTTP/1.1\r\n{fields}\r\ncontent-length: {length}");
            client.write(format!("{head}\r\n\r\n{body}").as_bytes()).await;
            let answer = client.read(true).await.unwrap();
            assert_eq!(answer.status == 403, is_foreign, "{path} {fields}: {}", answer.text());
        }
    }
    let mut client = Client::connect(server.address).await;
    let checks = client.send("GET", "/v1/check?policy=api&key=k", "", "").await;
    assert_eq!(checks.status, 403, "the test's client calls it by another name");
    client.write(b"GET /healthcheck HTTP/1.1\r\nhost: any.test\r\n\r\n").await;
    assert_eq!(client.read(true).await.unwrap().status, 200, "balancers may call it anything");
    client.write(b"GET /v1/check?policy=api&key=k HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(client.read(true).await.unwrap().json()["remaining"], 1000 - 6);
}

// A check of a huge cost takes nothing, so it would be a peek without the scope.
#[tokio::test]
async fn denials_show_what_remains_only_to_clients_that_may_look() {
    let server = api(Access::new(rules(None), Exposure::Network), HostNames::default()).await;
    let check = |cost: u64| json!({"policy": "api", "key": "k", "cost": cost});
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.post("/v1/check", &check(400)).await.json()["remaining"], 600);
    for cost in [601, 1000, 1001, (1 << 53) - 1] {
        let asks = json!({"asks": [check(cost)]});
        for (path, body) in [
            ("/v1/check", check(cost)),
            ("/v1/check?status=429", check(cost)),
            ("/v1/reserve", check(cost)),
            ("/v1/check_all", asks.clone()),
            ("/v1/check_all?status=429", asks.clone()),
            ("/v1/batch", asks),
        ] {
            for (token, shows) in [("", false), (APP, false), (EYE, true), (OPS, true)] {
                let fields = if token.is_empty() { String::new() } else { bearer(token) };
                let mut client = Client::connect(server.address).await;
                let fields = format!("{JSON}{fields}");
                let answer = client.send("POST", path, &fields, &body.to_string()).await;
                let head = ["ratelimit", "x-ratelimit-remaining"].map(|name| answer.field(name));
                let all = format!("{head:?} {}", answer.text());
                assert!(all.contains("600") == shows, "{path} {cost} {token}: {all}");
            }
        }
    }
}
