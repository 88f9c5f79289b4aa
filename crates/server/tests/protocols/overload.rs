//! More HTTP requests than there is room for.

use std::sync::Arc;

use slidegate_server::http::{HttpSettings, HttpState, ShedLoad};
use slidegate_server::spec::Spec;
use slidegate_tower::OverloadGuard;

use crate::http_client::{Client, JSON, Running, engine, until};

/// A server with room for one request.
async fn narrow(spec: &Spec) -> (Running, OverloadGuard) {
    let guard = OverloadGuard::builder("http").concurrency_max(1).queue_max(0).build().unwrap();
    let (engine, _clock) = engine(spec);
    let state = HttpState::new(engine, HttpSettings::default());
    let server = Running::of(Arc::new(ShedLoad::new(state, Some(guard.clone())))).await;
    (server, guard)
}

#[tokio::test]
async fn the_health_check_is_not_shed() {
    let (server, guard) = narrow(&Spec::default()).await;
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
