//! More HTTP requests than there is room for.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slidegate::Quota;
use slidegate_server::engine::Engine;
use slidegate_server::http::{HttpSettings, HttpState, ShedLoad};
use slidegate_server::spec::{PolicySpec, Spec};
use slidegate_tower::OverloadGuard;

use crate::http_client::{Client, JSON, Running, engine, until};

/// A server with room for one request.
async fn narrow(spec: &Spec) -> (Running, OverloadGuard, Arc<Engine>) {
    let guard = OverloadGuard::builder("http").concurrency_max(1).queue_max(0).build().unwrap();
    let (engine, _clock) = engine(spec);
    let state = HttpState::new(Arc::clone(&engine), HttpSettings::default());
    let server = Running::of(Arc::new(ShedLoad::new(state, Some(guard.clone())))).await;
    (server, guard, engine)
}

#[tokio::test]
async fn the_health_check_is_not_shed() {
    let (server, guard, _engine) = narrow(&Spec::default()).await;
    // The request occupies the only place until its body has arrived.
    let mut slow = Client::connect(server.address).await;
    slow.write(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n").await;
    slow.write(format!("{JSON}\r\n").as_bytes()).await;
    until("the request to be served", || guard.stats().serving == 1).await;
    let mut client = Client::connect(server.address).await;
    assert_eq!(client.get("/v1/policies").await.status, 503);
    assert_eq!(client.get("/healthcheck").await.status, 200);
    assert_eq!(client.send("HEAD", "/healthcheck", "", "").await.status, 200);
    assert_eq!(guard.stats().shed, 1);
}

// Requests that wait do nothing, so they must not keep others out for as long as they wait.
#[tokio::test]
async fn a_request_that_waits_for_units_leaves_its_place_to_others() {
    let quota = Quota::new(4, Duration::from_secs(25)).unwrap();
    let policies = vec![PolicySpec::new("api", vec![quota])];
    let (server, guard, engine) = narrow(&Spec { policies, ..Spec::default() }).await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "api", "key": "alice"});
    let all = json!({"policy": "api", "key": "alice", "cost": 4});
    assert_eq!(client.post("/v1/check", &all).await.json()["allowed"], true);
    let posted = |path: &str, body: &str| {
        let length = body.len();
        format!(
            "POST {path}?wait=30 HTTP/1.1\r\nhost: a\r\n{JSON}content-length: {length}\r\n\r\n{body}"
        )
    };
    let asks = json!({"asks": [ask]}).to_string();
    let requests = [
        "GET /v1/check?policy=api&key=alice&wait=30 HTTP/1.1\r\nhost: a\r\n\r\n".to_owned(),
        posted("/v1/check", &ask.to_string()),
        posted("/v1/reserve", &json!({"policy": "api", "key": "alice", "cost": 1}).to_string()),
        posted("/v1/check_all", &asks),
    ];
    let mut waiting = Vec::new();
    for request in requests {
        let mut client = Client::connect(server.address).await;
        client.write(request.as_bytes()).await;
        waiting.push(client);
        let waiters = format!(
            "rate_limit_waiters{{store=\"memory\",policy=\"api\",algorithm=\"log\"}} {}\n",
            waiting.len()
        );
        until(&request, || engine.metrics().render().contains(&waiters)).await;
    }
    assert_eq!(client.get("/v1/policies").await.status, 200);
    assert_eq!((guard.stats().shed, guard.stats().serving), (0, 0));
}
