//! What clients must not be able to do: hold a connection, fill memory, end the process.
//!
//! What could go wrong: a slow or greedy client that others pay for. The clock moves only when a
//! test advances it, so that nothing depends on the speed of the machine.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::{Request, Response};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use serde_json::json;
use slidegate::Quota;
use slidegate_server::http::{
    Connections, Handle, HttpSettings, HttpState, Peer, Reply, ServeLimits,
};
use slidegate_server::net::BodyBudget;
use slidegate_server::spec::{PolicySpec, Spec};
use slidegate_testkit::server::PATIENCE;
use tokio::time::timeout;

use crate::frozen_time::FrozenTime;
use crate::http_client::{Client, JSON, Running, api, engine, until};

const GET: &[u8] = b"GET /v1/check?policy=api&key=a HTTP/1.1\r\nhost: test\r\n\r\n";

fn spec() -> Spec {
    let policy = PolicySpec::new("api", vec![Quota::per_minute(1_000_000)]);
    Spec { policies: vec![policy], ..Spec::default() }
}

/// The bound that a test is about.
const SHORT: Duration = Duration::from_secs(1);

/// Bounds that no test reaches, but for the one that it makes short.
fn long() -> ServeLimits {
    let hour = Duration::from_secs(3600);
    ServeLimits {
        header_timeout: hour,
        request_timeout: hour,
        write_timeout: hour,
        idle_timeout: hour,
        drain_timeout: hour,
        ..ServeLimits::default()
    }
}

async fn start(limits: ServeLimits, connections: usize) -> Running {
    let (engine, _clock) = engine(&spec());
    let state = Arc::new(HttpState::new(engine, HttpSettings::default()));
    Running::with(state, limits, Connections::new("http", connections)).await
}

/// Moves the clock until the server closes the connection, which it must do without an answer.
async fn assert_closed_in_time(time: &FrozenTime, client: &mut Client) {
    let answer = time.until(SHORT, "the connection to be closed", client.read(true)).await;
    assert!(answer.is_none(), "{answer:?}");
}

#[tokio::test]
async fn a_slow_head_is_cut() {
    let time = FrozenTime::new();
    let server = start(ServeLimits { header_timeout: SHORT, ..long() }, 10).await;
    for piece in [&GET[..1], &GET[..20], b"PRI * HTTP/2.0\r\n"] {
        let mut client = Client::connect(server.address).await;
        client.write(piece).await;
        assert_closed_in_time(&time, &mut client).await;
    }
    // Also after a good request, and one that sends a byte now and then.
    let mut client = Client::connect(server.address).await;
    client.write(GET).await;
    assert_eq!(client.read(true).await.unwrap().status, 200);
    client.write(&GET[..9]).await;
    assert_closed_in_time(&time, &mut client).await;
    until("all to be gone", || server.connections.open() == 0).await;
    assert_eq!(server.connections.cut.get(), 4);
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let time = FrozenTime::new();
    let server = start(ServeLimits { idle_timeout: SHORT, ..long() }, 10).await;
    let mut client = Client::connect(server.address).await;
    assert_closed_in_time(&time, &mut client).await;
    let mut client = Client::connect(server.address).await;
    client.write(GET).await;
    assert_eq!(client.read(true).await.unwrap().status, 200);
    assert_closed_in_time(&time, &mut client).await;
    assert_eq!(server.connections.cut.get(), 0);
}

#[tokio::test]
async fn a_slow_body_is_cut() {
    let time = FrozenTime::new();
    let server = start(ServeLimits { request_timeout: SHORT, ..long() }, 10).await;
    let mut client = Client::connect(server.address).await;
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: test\r\n{JSON}content-length: 50\r\n\r\n{{");
    client.write(head.as_bytes()).await;
    assert_closed_in_time(&time, &mut client).await;
    assert_eq!(server.connections.cut.get(), 1);
}

#[tokio::test]
async fn who_does_not_take_answers_is_cut() {
    let time = FrozenTime::new();
    let server = start(ServeLimits { write_timeout: SHORT, ..long() }, 10).await;
    let mut client = Client::connect(server.address).await;
    // More replies than all buffers hold, and the client does not read them.
    let asks = "GET /openapi.json HTTP/1.1\r\nhost: test\r\n\r\n".repeat(100);
    let flood = async { while client.try_write(asks.as_bytes()).await {} };
    time.until(SHORT, "the client to be cut", flood).await;
    until("the client to be cut", || server.connections.cut.get() == 1).await;
}

#[tokio::test]
async fn a_large_body_is_refused_before_it_is_read() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let claim = format!("{JSON}content-length: 65537\r\n");
    let head = format!("POST /v1/check HTTP/1.1\r\nhost: test\r\n{claim}\r\n");
    client.write(head.as_bytes()).await;
    let answer = client.read(true).await.unwrap();
    assert_eq!(answer.status, 413);
    assert!(answer.json()["detail"].as_str().unwrap().contains("65536 bytes"));

    // Without a length it is refused when it has become too large.
    let mut client = Client::connect(server.address).await;
    let head = format!(
        "POST /v1/batch HTTP/1.1\r\nhost: test\r\n{JSON}transfer-encoding: chunked\r\n\r\n"
    );
    client.write(head.as_bytes()).await;
    let piece = " ".repeat(30_000);
    for _ in 0..3 {
        client.write(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).await;
    }
    assert_eq!(client.read(true).await.unwrap().status, 413);

    // One of exactly that size is not too large.
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "api", "key": "a"}).to_string();
    let body = ask.clone() + &" ".repeat(65_536 - ask.len());
    assert_eq!(client.send("POST", "/v1/check", JSON, &body).await.status, 200);
}

// The bytes that each client has sent are within its own bound.
#[tokio::test]
async fn incomplete_bodies_take_a_bounded_memory_and_small_ones_are_read() {
    let (engine, _clock) = engine(&spec());
    let settings = HttpSettings { bodies: BodyBudget::new(60_000), ..HttpSettings::default() };
    let bodies = Arc::clone(&settings.bodies);
    let server = Running::of(Arc::new(HttpState::new(engine, settings))).await;
    let ask = json!({"policy": "api", "key": "a"}).to_string();
    let head =
        format!("POST /v1/check HTTP/1.1\r\nhost: test\r\n{JSON}content-length: 60000\r\n\r\n");
    let part = head + &ask + &" ".repeat(40_000 - ask.len());
    let mut held = Vec::new();
    // Each has 40,000 bytes, three header fields and its own state; 16 KiB of its connection are not counted.
    let each = 40_000 + 3 * 128 + 4096 - (16 << 10);
    for used in [each, 2 * each] {
        let mut client = Client::connect(server.address).await;
        client.write(part.as_bytes()).await;
        until("the body", || bodies.used() == used).await;
        held.push(client);
    }
    let mut third = Client::connect(server.address).await;
    third.write(part.as_bytes()).await;
    let refused = third.read(true).await.unwrap();
    assert_eq!(refused.status, 503);
    assert!(refused.json()["detail"].as_str().unwrap().contains("limits.bodies_max_mb"));
    let mut small = Client::connect(server.address).await;
    assert_eq!(small.send("POST", "/v1/check", JSON, &ask).await.status, 200);
    for mut client in held {
        client.write(" ".repeat(20_000).as_bytes()).await;
        // The rest of the first one does not fit.
        client.read(true).await.unwrap();
    }
    until("the memory", || bodies.used() == 0).await;
}

#[tokio::test]
async fn a_large_head_is_refused() {
    let (server, _clock) = api(&spec()).await;
    let mut client = Client::connect(server.address).await;
    let field = format!("x-long: {}\r\n", "x".repeat(64 << 10));
    let head = format!("GET /v1/policies HTTP/1.1\r\nhost: test\r\n{field}\r\n");
    client.write(head.as_bytes()).await;
    assert_eq!(client.read(true).await.unwrap().status, 431);
    let mut client = Client::connect(server.address).await;
    let head = format!("GET /v1/policies HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(1000));
    client.write(head.as_bytes()).await;
    assert_eq!(client.read(true).await.unwrap().status, 431);
}

/// A handler that never replies to `/hang`.
struct Hangs;

impl Handle for Hangs {
    type Body = Full<Bytes>;

    async fn handle(&self, request: &mut Request<Incoming>, _: &Peer) -> Reply {
        if request.uri().path() == "/hang" {
            std::future::pending::<()>().await;
        }
        Response::new(Full::default())
    }
}

#[tokio::test]
async fn new_connections_are_turned_away_while_all_others_are_busy() {
    let server = Running::with(Arc::new(Hangs), long(), Connections::new("http", 2)).await;
    let mut first = Client::connect(server.address).await;
    let mut second = Client::connect(server.address).await;
    for client in [&mut first, &mut second] {
        client.write(b"GET /hang HTTP/1.1\r\nhost: test\r\n\r\n").await;
    }
    until("both to be served", || server.connections.busy() == 2).await;
    let mut third = Client::connect(server.address).await;
    // The 503 may be lost when the kernel throws away what the client had sent already.
    if let Some(answer) = third.read(true).await {
        assert_eq!(answer.status, 503);
    }
    until("it to be counted", || server.connections.refused.get() == 1).await;
    drop(first);
    until("a place", || server.connections.open() == 1).await;
    let mut fourth = Client::connect(server.address).await;
    assert_eq!(fourth.get("/").await.status, 200);
    // It is idle now, so the next one takes its place.
    let mut fifth = Client::connect(server.address).await;
    assert_eq!(fifth.get("/").await.status, 200);
    assert!(fourth.read(true).await.is_none());
    assert_eq!((server.connections.evicted.get(), server.connections.busy()), (1, 1));
}

/// A handler that panics on request, at once or after a wait.
struct Fragile {
    is_calm: AtomicBool,
}

impl Handle for Fragile {
    type Body = Full<Bytes>;

    async fn handle(&self, request: &mut Request<Incoming>, _: &Peer) -> Reply {
        if self.is_calm.load(Ordering::Relaxed) {
            return Response::new(Full::from("calm"));
        }
        if request.uri().path() == "/later" {
            tokio::task::yield_now().await;
        }
        panic!("as the test wants it");
    }
}

#[tokio::test]
async fn a_panic_is_answered_and_ends_nothing() {
    let handler = Arc::new(Fragile { is_calm: AtomicBool::new(false) });
    let server = Running::of(Arc::clone(&handler)).await;
    let mut client = Client::connect(server.address).await;
    for path in ["/", "/later"] {
        let answer = client.get(path).await;
        assert_eq!(answer.status, 500);
        assert_eq!(answer.json()["status"], 500);
        assert!(!answer.text().contains("as the test wants it"));
    }
    assert_eq!(server.connections.panics.get(), 2);
    handler.is_calm.store(true, Ordering::Relaxed);
    assert_eq!(client.get("/").await.text(), "calm");
}

/// A handler that replies on request.
#[derive(Default)]
struct Patient {
    is_asked: AtomicBool,
    go_on: tokio::sync::Notify,
}

impl Handle for Patient {
    type Body = Full<Bytes>;

    async fn handle(&self, _: &mut Request<Incoming>, _: &Peer) -> Reply {
        self.is_asked.store(true, Ordering::Relaxed);
        self.go_on.notified().await;
        Response::new(Full::from("done"))
    }
}

#[tokio::test]
async fn requests_in_flight_at_shutdown_are_answered() {
    let handler = Arc::new(Patient::default());
    let server = Running::with(Arc::clone(&handler), long(), Connections::new("http", 10)).await;
    let (address, connections) = (server.address, Arc::clone(&server.connections));
    let mut idle = Client::connect(address).await;
    let mut client = Client::connect(address).await;
    client.write(GET).await;
    until("the request", || handler.is_asked.load(Ordering::Relaxed)).await;
    let ended = server.end();
    // No new client gets in, and an idle one is closed.
    assert!(timeout(PATIENCE, idle.read(true)).await.unwrap().is_none());
    until("refusals", || std::net::TcpStream::connect(address).is_err()).await;
    assert!(!ended.is_finished());
    handler.go_on.notify_one();
    let answer = client.read(true).await.unwrap();
    assert_eq!((answer.text(), answer.field("connection")), ("done", Some("close")));
    timeout(PATIENCE, ended).await.unwrap().unwrap();
    assert_eq!(connections.open(), 0);
}

#[tokio::test]
async fn what_takes_too_long_at_the_end_is_dropped() {
    let handler = Arc::new(Patient::default());
    let time = FrozenTime::new();
    let limits = ServeLimits { drain_timeout: SHORT, ..long() };
    let server = Running::with(Arc::clone(&handler), limits, Connections::new("http", 10)).await;
    let mut client = Client::connect(server.address).await;
    client.write(GET).await;
    until("the request", || handler.is_asked.load(Ordering::Relaxed)).await;
    time.until(SHORT, "the server to end", server.end()).await.unwrap();
    assert!(client.read(true).await.is_none());
}
