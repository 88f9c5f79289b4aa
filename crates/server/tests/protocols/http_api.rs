//! The API over real sockets: every endpoint, asked well and asked badly.
//!
//! What could go wrong: an answer that is not what the engine decided, a bound that is not kept, an
//! error that does not say what to do.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use slidegate::{Algorithm, Quota};
use slidegate_server::spec::{CandidateSpec, PolicySpec, Rollout, Spec};

use crate::http_client::{Answer, Client, JSON, api};

fn per_minute(limit: u32) -> Quota {
    Quota::per_minute(limit)
}

fn spec() -> Spec {
    let two = vec![Quota::per_second(2), Quota::per_hour(1000)];
    let mut api = PolicySpec::new("api", vec![per_minute(3)]);
    api.tiers.insert("gold".to_owned(), vec![per_minute(100)]);
    let mut shadow = PolicySpec::new("shadow", vec![per_minute(1)]);
    shadow.rollout = Rollout::Shadow;
    let mut off = PolicySpec::new("off", vec![per_minute(1)]);
    off.rollout = Rollout::Off;
    let mut gcra = PolicySpec::new("even", vec![per_minute(10)]);
    gcra.algorithm = Algorithm::Gcra;
    gcra.candidate =
        Some(CandidateSpec { quotas: vec![per_minute(5)], algorithm: Algorithm::Counter });
    let slash = PolicySpec::new("a/b:c*", vec![per_minute(1)]);
    let policies = vec![api, PolicySpec::new("two", two), shadow, off, gcra, slash];
    Spec { policies, ..Spec::default() }
}

fn assert_problem(answer: &Answer, status: u16, words: &[&str]) {
    assert_eq!(answer.status, status, "{}", answer.text());
    assert_eq!(answer.field("content-type"), Some("application/problem+json"));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let problem = answer.json();
    assert_eq!(problem["status"], status);
    for name in ["type", "title", "detail"] {
        assert!(problem[name].as_str().is_some_and(|text| !text.is_empty()), "{problem}");
    }
    let detail = problem["detail"].as_str().unwrap();
    for word in words {
        assert!(detail.contains(word), "{word:?} is not in {detail:?}");
    }
}

#[tokio::test]
async fn check_counts_and_returns_the_status_of_each_quota() {
    let (server, clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "api", "key": "alice"});
    for remaining in [2, 1, 0] {
        let answer = client.post("/v1/check", &ask).await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.field("content-type"), Some("application/json"));
        // The caller is not the limited client, and must not slow down.
        for field in ["ratelimit", "ratelimit-policy", "x-ratelimit-limit", "retry-after"] {
            assert_eq!(answer.field(field), None);
        }
        let mut body = answer.json();
        let receipt = body.as_object_mut().unwrap().remove("receipt").unwrap();
        assert!(receipt.as_str().unwrap().len() < 32);
        let standing = json!({"limit": 3, "window": 60, "remaining": remaining, "reset_after": 60});
        let expected = json!({
            "allowed": true, "policy": "api", "limit": 3, "remaining": remaining,
            "reset_after": 60, "quotas": [standing],
        });
        assert_eq!(body, expected);
    }
    clock.advance(Duration::from_millis(500));
    let denied = client.post("/v1/check", &ask).await;
    assert_eq!(denied.status, 200);
    assert_eq!(denied.field("retry-after"), None);
    let expected = json!({
        "allowed": false, "policy": "api", "limit": 3, "remaining": 0, "reset_after": 59.5,
        "retry_after": 59.5,
        "quotas": [{
            "limit": 3, "window": 60, "remaining": 0, "reset_after": 59.5, "retry_after": 59.5,
        }],
    });
    assert_eq!(denied.json(), expected);
    // Exactly then, and not a millisecond earlier.
    clock.advance(Duration::from_millis(59_499));
    assert_eq!(client.post("/v1/check", &ask).await.json()["allowed"], false);
    clock.advance(Duration::from_millis(1));
    assert_eq!(client.post("/v1/check", &ask).await.json()["allowed"], true);
}

#[tokio::test]
async fn a_query_asks_the_same() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let answer = client.get("/v1/check?policy=api&key=a%26b+c&cost=2").await;
    assert_eq!((answer.status, &answer.json()["remaining"]), (200, &json!(1)));
    assert_eq!(answer.field("cache-control"), Some("no-store"));
    let same = json!({"policy": "api", "key": "a&b c", "cost": 1});
    assert_eq!(client.post("/v1/check", &same).await.json()["remaining"], 0);
    let gold = client.get("/v1/check?key=a%26b+c&tier=gold&policy=api").await;
    assert_eq!(gold.json()["remaining"], 96);
    let denied = client.get("/v1/check?policy=api&key=a%26b+c&status=429").await;
    assert_problem(&denied, 429, &["api", "60 s"]);
    for (query, words) in [
        ("", &["policy", "key"][..]),
        ("?policy=api", &["key"]),
        ("?policy=api&key=", &["0 bytes", "1 to 1024"]),
        ("?policy=api&key=x&key=y", &["key", "duplicate"]),
        ("?policy=api&key=x&cosst=5", &["cosst", "cost"]),
        ("?policy=api&key=x&cost=0", &["cost 0", "1 to 9007199254740991"]),
        ("?policy=api&key=x&cost=-1", &["cost -1"]),
        ("?policy=api&key=x&cost=%2B1", &["cost +1"]),
        ("?policy=api&key=x&cost=1.5", &["cost 1.5"]),
        ("?policy=api&key=x&cost=", &["cost"]),
        ("?policy=api&key=x&status=418", &["418", "200 or 429"]),
        ("?policy=api&key=%ff", &["UTF-8"]),
        ("?policy=api&key=%2", &["%"]),
    ] {
        assert_problem(&client.get(&format!("/v1/check{query}")).await, 400, words);
    }
}

#[tokio::test]
async fn a_denial_is_an_error_only_when_asked_for() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "api", "key": "bob", "cost": 4});
    let never = client.post("/v1/check", &ask).await.json();
    assert_eq!((&never["allowed"], &never["retry_after"]), (&json!(false), &Value::Null));
    assert!(never.as_object().unwrap().contains_key("retry_after"));
    let denied = client.post("/v1/check?status=429", &ask).await;
    assert_problem(&denied, 429, &["no wait helps"]);
    // No number would be true.
    assert_eq!(denied.field("retry-after"), None);
    assert_eq!(denied.field("ratelimit"), Some("\"api\";r=3;t=0"));
    assert_eq!(client.post("/v1/check?status=200", &ask).await.status, 200);
    let ask = json!({"policy": "api", "key": "bob", "cost": 3});
    let allowed = client.post("/v1/check?status=429", &ask).await;
    assert_eq!((allowed.status, allowed.field("ratelimit")), (200, Some("\"api\";r=0;t=60")));
    assert_eq!(allowed.field("ratelimit-policy"), Some("\"api\";q=3;w=60"));
    assert_eq!(allowed.field("x-ratelimit-limit"), Some("3"));
    assert_eq!(allowed.field("x-ratelimit-remaining"), Some("0"));
    assert_eq!(allowed.field("x-ratelimit-reset"), Some("60"));
    assert_eq!(allowed.field("retry-after"), None);
    let denied = client.post("/v1/check?status=429", &ask).await;
    assert_problem(&denied, 429, &["api (3 in 60 s)", "retry after 60 s"]);
    assert_eq!(denied.json()["violated-policies"], json!(["api"]));
    assert_eq!(denied.field("retry-after"), Some("60"));
}

#[tokio::test]
async fn limits_that_are_not_enforced_deny_no_request_and_send_no_fields() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "shadow", "key": "x"});
    assert_eq!(client.post("/v1/check", &ask).await.json()["allowed"], true);
    let second = client.post("/v1/check?status=429", &ask).await;
    assert_eq!(second.json()["allowed"], true);
    assert_eq!(second.json()["shadow_denied"], true);
    assert!(second.json().get("receipt").is_none());
    assert_eq!(second.field("ratelimit"), None);
    let ask = json!({"policy": "off", "key": "x"});
    for _ in 0..3 {
        let answer = client.post("/v1/check?status=429", &ask).await;
        assert_eq!(
            (answer.json()["remaining"].as_u64(), answer.field("ratelimit")),
            (Some(1), None)
        );
    }
}

#[tokio::test]
async fn several_quotas_and_their_fields() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let answer = client.post("/v1/check?status=429", &json!({"policy": "two", "key": "x"})).await;
    let field = "\"two-1s\";r=1;t=1, \"two-3600s\";r=999;t=3600";
    assert_eq!(answer.field("ratelimit"), Some(field));
    let quotas = &answer.json()["quotas"];
    assert_eq!((&quotas[0]["window"], &quotas[1]["window"]), (&json!(1), &json!(3600)));
    assert_eq!(quotas[1]["remaining"], 999);
}

#[tokio::test]
async fn all_or_nothing() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let ask = |key: &str| json!({"policy": "api", "key": key, "cost": 2});
    let both = json!({"asks": [ask("a"), {"policy": "two", "key": "a"}]});
    let answer = client.post("/v1/check_all?status=429", &both).await;
    assert_eq!((answer.status, &answer.json()["allowed"]), (200, &json!(true)));
    assert_eq!(answer.json()["answers"][1]["quotas"][0]["remaining"], 1);
    assert!(answer.field("ratelimit").unwrap().contains("\"api\";r=1"));
    // The first is in the way, and the second keeps what it has.
    let denied = client.post("/v1/check_all", &both).await.json();
    assert_eq!(denied["allowed"], false);
    assert_eq!(denied["answers"][0]["over"], true);
    assert_eq!(denied["answers"][1]["allowed"], false);
    assert!(denied["answers"][1].get("over").is_none());
    let usage = client.post("/v1/usage", &json!({"policy": "two", "key": "a"})).await.json();
    assert_eq!(usage["quotas"][0]["used"], 1);
    let error = client.post("/v1/check_all?status=429", &both).await;
    assert_problem(&error, 429, &["api"]);
    assert_eq!(error.json()["violated-policies"], json!(["api"]));

    let many = |count: usize| json!({"asks": vec![json!({"policy": "off", "key": "x"}); count]});
    assert_eq!(client.post("/v1/check_all", &many(64)).await.status, 200);
    assert_problem(&client.post("/v1/check_all", &many(65)).await, 400, &["65", "1 to 64"]);
    assert_problem(&client.post("/v1/check_all", &many(0)).await, 400, &["0 checks"]);
    let unknown = json!({"asks": [ask("a"), {"policy": "twoo", "key": "a"}]});
    assert_problem(&client.post("/v1/check_all", &unknown).await, 404, &["twoo", "\"two\""]);
}

#[tokio::test]
async fn a_batch_answers_each() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let batch = json!({"asks": [
        {"policy": "api", "key": "a", "cost": 3},
        {"policy": "api", "key": "a"},
        {"policy": "apu", "key": "a"},
        {"policy": "api", "key": "b", "tier": "gold", "cost": 7},
        {"policy": "api", "key": "b", "tier": "glod"},
    ]});
    let answer = client.post("/v1/batch", &batch).await;
    assert_eq!(answer.status, 200);
    let answers = &answer.json()["answers"];
    assert_eq!(answers[0]["allowed"], true);
    assert_eq!(answers[1]["allowed"], false);
    assert_eq!((&answers[2]["status"], &answers[2]["nearest"]), (&json!(404), &json!("api")));
    assert_eq!(answers[3]["remaining"], 93);
    assert_eq!((&answers[4]["status"], &answers[4]["nearest"]), (&json!(404), &json!("gold")));
    assert_eq!(answers.as_array().unwrap().len(), 5);

    // What is malformed is not asked in part.
    let malformed = json!({"asks": [{"policy": "api", "key": "c"}, {"policy": "api", "key": ""}]});
    assert_problem(&client.post("/v1/batch", &malformed).await, 400, &["asks[1]", "1 to 1024"]);
    let usage = client.post("/v1/usage", &json!({"policy": "api", "key": "c"})).await.json();
    assert_eq!(usage["quotas"][0]["used"], 0);

    let many = |count: usize| json!({"asks": vec![json!({"policy": "off", "key": "x"}); count]});
    let answer = client.post("/v1/batch", &many(1000)).await;
    assert_eq!(answer.json()["answers"].as_array().unwrap().len(), 1000);
    assert_problem(&client.post("/v1/batch", &many(1001)).await, 400, &["1001", "1 to 1000"]);
    assert_problem(&client.post("/v1/batch?status=429", &many(1)).await, 400, &["status"]);
}

#[tokio::test]
async fn what_was_taken_can_be_looked_at_given_back_and_settled() {
    let (server, clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let who = json!({"policy": "api", "key": "carol"});
    let with = |name: &str, value: Value| {
        let mut body = who.clone();
        body[name] = value;
        body
    };
    let peeked = client.post("/v1/peek?status=429", &with("cost", json!(2))).await;
    assert_eq!(
        (&peeked.json()["allowed"], peeked.field("x-ratelimit-remaining")),
        (&json!(true), Some("3"))
    );
    assert!(peeked.json().get("receipt").is_none());
    let taken = client.post("/v1/check", &with("cost", json!(2))).await.json();
    clock.advance(Duration::from_millis(1500));
    let other = client.post("/v1/reserve", &with("cost", json!(1))).await.json();
    let usage = client.post("/v1/usage", &who).await.json();
    assert_eq!(usage["quotas"], json!([{"limit": 3, "window": 60, "used": 3}]));
    let history = client.post("/v1/history", &who).await.json();
    assert_eq!(
        history,
        json!({"policy": "api", "left_out": 0,
            "events": [{"at": 1_700_000_000, "units": 2}, {"at": 1_700_000_001.5, "units": 1}]})
    );
    let refund = with("receipt", taken["receipt"].clone());
    let refunded = client.post("/v1/refund", &refund).await;
    assert_eq!(refunded.json(), json!({"policy": "api", "refunded": 2}));
    assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 1);
    let mut settle = with("receipt", other["receipt"].clone());
    settle["actual"] = json!(3);
    let settled = client.post("/v1/settle", &settle).await;
    assert_eq!(settled.json(), json!({"policy": "api", "charged": 3}));
    assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 3);
    assert_eq!(client.post("/v1/reset", &who).await.json()["reset"], true);
    assert_eq!(client.post("/v1/reset", &who).await.json()["reset"], false);
    assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 0);

    for receipt in ["", "not a word", "AQD70JX_vDE", "AQD70JX_vDEB=", "AAD70JX_vDEB"] {
        let answer = client.post("/v1/refund", &with("receipt", json!(receipt))).await;
        assert_problem(&answer, 400, &["receipt", "of an allowed check"]);
    }
    settle["actual"] = json!(-1);
    assert_problem(&client.post("/v1/settle", &settle).await, 400, &["actual -1", "from 0 to"]);
    assert_problem(&client.post("/v1/reserve", &who).await, 400, &["cost"]);
    // The algorithm keeps no times.
    let even = json!({"policy": "even", "key": "x"});
    assert_problem(&client.post("/v1/history", &even).await, 409, &["history"]);
}

#[tokio::test]
async fn policies_are_listed() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let all = client.get("/v1/policies").await.json();
    assert_eq!(all["policies"].as_array().unwrap().len(), 6);
    let api = client.get("/v1/policies/api").await.json();
    assert_eq!(api, all["policies"][0]);
    let expected = json!({
        "name": "api", "quotas": [{"limit": 3, "window": 60}], "algorithm": "log",
        "mode": "enforce", "enforce_percent": 100, "store": "memory", "failure_mode": "allow",
        "tiers": {"gold": [{"limit": 100, "window": 60}]},
    });
    assert_eq!(api, expected);
    let even = client.get("/v1/policies/even").await.json();
    assert_eq!(even["candidate"]["algorithm"], "counter");
    for path in ["/v1/policies/a/b:c*", "/v1/policies/a%2Fb%3Ac%2a"] {
        assert_eq!(client.get(path).await.json()["name"], "a/b:c*");
    }
    assert_problem(&client.get("/v1/policies/apii").await, 404, &["apii", "\"api\""]);
    assert_problem(&client.get("/v1/policies?x").await, 400, &["x"]);
}

#[tokio::test]
async fn invalid_requests_get_an_error_with_what_to_do() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let key = "k".repeat(1024);
    for (body, status, words) in [
        (json!({"policy": "api", "key": "a", "cost": 0}), 400, &["cost 0", "9007199254740991"][..]),
        (json!({"policy": "api", "key": "a", "cost": 1u64 << 53}), 400, &["9007199254740992"]),
        (json!({"policy": "api", "key": "a", "cost": -3}), 400, &["cost -3"]),
        (json!({"policy": "api", "key": "a", "cost": 1.5}), 400, &["cost 1.5"]),
        (json!({"policy": "api", "key": "a", "cost": "1"}), 400, &["whole number"]),
        (json!({"policy": "api", "key": ""}), 400, &["0 bytes", "1 to 1024"]),
        (json!({"policy": "api", "key": key.clone() + "k"}), 400, &["1025 bytes"]),
        (json!({"policy": "api", "key": "\u{1f980}".repeat(257)}), 400, &["1028 bytes"]),
        (json!({"policy": "api", "key": 5}), 400, &["a string"]),
        (json!({"policy": "api"}), 400, &["missing field `key`"]),
        (json!({"policy": "api", "key": "a", "kost": 2}), 400, &["unknown field `kost`"]),
        (json!([]), 400, &["request body"]),
        (json!({"policy": "login", "key": "a"}), 404, &["unknown policy \"login\""]),
        (json!({"policy": "apii", "key": "a"}), 404, &["did you mean \"api\"?"]),
        (json!({"policy": "api", "key": "a", "tier": "glod"}), 404, &["\"glod\"", "\"gold\""]),
    ] {
        for path in ["/v1/check", "/v1/peek"] {
            assert_problem(&client.post(path, &body).await, status, words);
        }
    }
    for body in ["", "{", "{\"policy\":\"api\",\"policy\":\"api\",\"key\":\"a\"}", "\u{feff}{}"] {
        assert_problem(&client.send("POST", "/v1/check", JSON, body).await, 400, &["request body"]);
    }
    // Whole to the last bit, and more than is ever allowed.
    let body = "{\"policy\":\"api\",\"key\":\"a\",\"cost\":2201673383716371.0}";
    let answer = client.send("POST", "/v1/check", JSON, body).await;
    assert_eq!((answer.status, &answer.json()["retry_after"]), (200, &Value::Null));
    // These are well.
    for body in [
        json!({"policy": "api", "key": key}),
        json!({"policy": "api", "key": "\u{1f980}".repeat(256)}),
        json!({"policy": "api", "key": "b", "cost": 1.0}),
        json!({"policy": "api", "key": "c", "cost": null, "tier": null}),
    ] {
        assert_eq!(client.post("/v1/check", &body).await.json()["remaining"], 2);
    }
}

#[tokio::test]
async fn paths_methods_and_types_are_checked() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    assert_problem(&client.get("/v1/chek").await, 404, &["/v1/chek", "/v1/check"]);
    assert_problem(&client.get("/").await, 404, &[]);
    let wrong = client.send("DELETE", "/v1/check", "", "").await;
    assert_problem(&wrong, 405, &["DELETE", "POST, GET"]);
    assert_eq!(wrong.field("allow"), Some("POST, GET"));
    let wrong = client.get("/v1/reset").await;
    assert_problem(&wrong, 405, &["use POST"]);
    let body = "{\"policy\":\"api\",\"key\":\"a\"}";
    let form = "content-type: application/x-www-form-urlencoded\r\n";
    assert_problem(&client.send("POST", "/v1/check", form, body).await, 415, &["x-www-form"]);
    assert_problem(&client.send("POST", "/v1/check", "", body).await, 415, &["curl --json"]);
    let spelt = "content-type: Application/JSON; charset=utf-8\r\n";
    assert_eq!(client.send("POST", "/v1/check", spelt, body).await.status, 200);
}

#[tokio::test]
async fn a_body_in_pieces_is_one_body() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: test\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
    );
    client.write(head.as_bytes()).await;
    for piece in ["{\"policy\":", "\"api\",", "\"key\":\"a\",\"cost\":2}"] {
        client.write(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await;
    }
    client.write(b"0\r\n\r\n").await;
    assert_eq!(client.read(true).await.unwrap().json()["remaining"], 1);
    // Two requests in one piece are two.
    let one = "GET /v1/check?policy=api&key=b HTTP/1.1\r\nhost: test\r\n\r\n";
    client.write(one.repeat(2).as_bytes()).await;
    assert_eq!(client.read(true).await.unwrap().json()["remaining"], 2);
    assert_eq!(client.read(true).await.unwrap().json()["remaining"], 1);
}

// Wherever the bytes are cut, the next request must wake the connection.
#[tokio::test]
async fn requests_follow_each_other_however_they_are_cut() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    for blanks in [0, 50_000] {
        for cut in [-1, 0, 1, 9, 26] {
            let key = format!("{blanks}.{cut}");
            let [head, body] = posted(&key, blanks, "");
            let both = format!("{head}{body}").repeat(2);
            // Around the end of the first head, and within the second request.
            for at in [head.len(), head.len() + body.len()].map(|at| at.saturating_add_signed(cut))
            {
                client.write(&both.as_bytes()[..at]).await;
                // Each time, the runtime looks at its sockets: the server reads the first part
                // alone.
                for _ in 0..10 {
                    tokio::task::yield_now().await;
                }
                client.write(&both.as_bytes()[at..]).await;
                for _ in 0..2 {
                    assert_eq!(client.read(true).await.unwrap().status, 200, "{key}");
                }
            }
        }
        let [head, body] = posted("late", blanks, "expect: 100-continue\r\n");
        client.write(head.as_bytes()).await;
        assert_eq!(client.read(true).await.unwrap().status, 100);
        client.write(body.as_bytes()).await;
        assert_eq!(client.read(true).await.unwrap().status, 200);
    }
}

/// Head and body of a check.
fn posted(key: &str, blanks: usize, field: &str) -> [String; 2] {
    let body = format!("{{\"policy\":\"api\",{}\"key\":\"{key}\"}}", " ".repeat(blanks));
    let fields = format!("host: test\r\n{JSON}{field}content-length: {}\r\n", body.len());
    [format!("POST /v1/check HTTP/1.1\r\n{fields}\r\n"), body]
}

#[tokio::test]
async fn openapi_document_describes_the_current_configuration() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let document = client.get("/openapi.json").await;
    assert_eq!(document.field("content-type"), Some("application/json"));
    let document = document.json();
    assert_eq!(document["openapi"], "3.1.0");
    let names = &document["components"]["schemas"]["PolicyName"]["examples"];
    assert_eq!(names, &json!(["api", "two", "shadow", "off", "even", "a/b:c*"]));
}

// A client that lost the reply settles again. What it was answered decides what it bills.
#[tokio::test]
async fn a_second_settlement_or_refund_changes_nothing_and_says_what_is_charged() {
    let (server, _) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let who = json!({"policy": "api", "key": "dave"});
    let with = |name: &str, value: &Value| {
        let mut body = who.clone();
        body[name] = value.clone();
        body
    };
    let first = client.post("/v1/reserve", &with("cost", &json!(3))).await.json();
    let mut settle = with("receipt", &first["receipt"]);
    settle["actual"] = json!(2);
    for _ in 0..2 {
        let settled = client.post("/v1/settle", &settle).await.json();
        assert_eq!(settled["charged"], 2);
        assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 2);
    }
    // Another number corrects what the first one left, up to a refund of the rest.
    settle["actual"] = json!(1);
    assert_eq!(client.post("/v1/settle", &settle).await.json()["charged"], 1);
    settle["actual"] = json!(3);
    assert_eq!(client.post("/v1/settle", &settle).await.json()["charged"], 3);
    assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 3);
    let refund = with("receipt", &first["receipt"]);
    for (refunded, used) in [(1, 2), (0, 2)] {
        assert_eq!(client.post("/v1/refund", &refund).await.json()["refunded"], refunded);
        assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], used);
    }

    // Two receipts of the same moment are two.
    assert_eq!(client.post("/v1/reset", &who).await.json()["reset"], true);
    let one = client.post("/v1/reserve", &with("cost", &json!(1))).await.json();
    let two = client.post("/v1/reserve", &with("cost", &json!(1))).await.json();
    for receipt in [&one["receipt"], &two["receipt"]] {
        let refunded = client.post("/v1/refund", &with("receipt", receipt)).await.json();
        assert_eq!(refunded["refunded"], 1);
    }
    settle = with("receipt", &one["receipt"]);
    settle["actual"] = json!(5);
    // Work that was done after all is recorded, and a receipt returns no more than its own units.
    assert_eq!(client.post("/v1/settle", &settle).await.json()["charged"], 5);
    assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], 5);
    settle["actual"] = json!(0);
    assert_eq!(client.post("/v1/settle", &settle).await.json()["charged"], 5);
}

// The use of a receipt is remembered by the daemon that issued it, and until it stops. Another one
// would return the units of later requests.
#[tokio::test]
async fn receipts_of_another_daemon_return_nothing() {
    let (server, _) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let who = json!({"policy": "api", "key": "eve"});
    let taken = client.post("/v1/check", &who).await.json();
    let other = of_another_daemon(taken["receipt"].as_str().unwrap());
    let mut body = json!({"policy": "api", "key": "eve", "receipt": other});
    assert_eq!(client.post("/v1/refund", &body).await.json()["refunded"], 0);
    for (actual, charged) in [(0, 1), (2, 2), (2, 2), (0, 2)] {
        body["actual"] = json!(actual);
        assert_eq!(client.post("/v1/settle", &body).await.json()["charged"], charged);
        assert_eq!(client.post("/v1/usage", &who).await.json()["quotas"][0]["used"], charged);
    }
}

/// The same receipt with another number.
fn of_another_daemon(receipt: &str) -> String {
    let mut bytes = URL_SAFE_NO_PAD.decode(receipt).unwrap();
    // Units, epoch and tick: each ends with a byte below 128.
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte < 0x80);
    let end = ends.nth(2).unwrap().0;
    bytes.truncate(end + 1);
    bytes.push(1);
    URL_SAFE_NO_PAD.encode(bytes)
}

#[tokio::test]
async fn an_array_in_place_of_an_object_is_refused() {
    let (server, _) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    for (path, body) in [
        ("/v1/check", json!(["api", "erin", null, 1])),
        ("/v1/refund", json!(["api", "erin", null, "AQD70JX_vDEB"])),
        ("/v1/batch", json!([[{"policy": "api", "key": "erin"}]])),
        ("/v1/batch", json!({"asks": [["api", "erin", null, 1]]})),
        ("/v1/check_all", json!({"asks": [["api", "erin", null, 1]]})),
    ] {
        let refused = client.post(path, &body).await;
        assert_problem(&refused, 400, &["invalid type: sequence, expected an object"]);
    }
}

#[tokio::test]
async fn errors_never_show_a_key() {
    let (server, _) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    for body in [
        json!("hunter2"),
        json!({"policy": "api", "key": ["hunter2"]}),
        json!({"policy": "api", "key": {"hunter2": 1}}),
        json!({"policy": ["hunter2"], "key": "hunter2"}),
        json!({"policy": "api", "key": "hunter2", "tier": 5}),
        json!({"policy": "aip", "key": "hunter2"}),
        json!({"policy": "api", "key": "hunter2".repeat(1000)}),
    ] {
        let refused = client.post("/v1/check", &body).await;
        assert!(refused.status >= 400, "{body}");
        assert!(!refused.text().contains("hunter2"), "{body}: {}", refused.text());
    }
    for path in [
        "/v1/check?policy=api&key=hunter2%zz",
        "/v1/check?policy=api&key=hunter2%ff",
        "/v1/check?policy=api&key=hunter2&key=hunter2",
        "/v1/check?key=hunter2",
        "/v1/policies?key=hunter2",
        "/auth?key=hunter2",
    ] {
        let refused = client.get(path).await;
        assert!(refused.status >= 400, "{path}");
        assert!(!refused.text().contains("hunter2"), "{path}: {}", refused.text());
    }
}
