//! Waiting for units over HTTP and the Redis protocol.
//!
//! What could go wrong: a request that waits longer than it may, that takes units for a client that is
//! gone, or that keeps later ones of the same key waiting behind it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use slidegate::Quota;
use slidegate_server::access::Access;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_server::resp::{self, RespLimits};
use slidegate_server::spec::{PolicySpec, Spec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use crate::http_client::{Client, Running, until};

/// Short enough to be waited for, and longer than any of these tests without a refund.
const LONG: Duration = Duration::from_secs(25);

struct Served {
    engine: Arc<Engine>,
    http: Running,
    resp: SocketAddr,
}

impl Served {
    /// With at most two waiters at a time.
    async fn start() -> Self {
        let quota = |limit, window| vec![Quota::new(limit, window).unwrap()];
        let short = PolicySpec::new("short", quota(1, Duration::from_millis(500)));
        let policies = vec![short, PolicySpec::new("long", quota(2, LONG))];
        let spec = Spec { policies, ..Spec::default() };
        let engine = Engine::new(&spec, &mut NoRestore).unwrap().waiters_max(2);
        let engine = Arc::new(engine);
        let state = HttpState::new(Arc::clone(&engine), HttpSettings::default());
        let http = Running::of(Arc::new(state)).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let resp = listener.local_addr().unwrap();
        let served = Arc::clone(&engine);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (engine, limits) = (Arc::clone(&served), RespLimits::default());
                let never = std::future::pending();
                tokio::spawn(resp::serve(
                    stream,
                    engine,
                    Access::open(),
                    limits,
                    Arc::default(),
                    never,
                ));
            }
        });
        Self { engine, http, resp }
    }

    /// Waits until this many requests are in the line of `long`.
    async fn until_waiting(&self, waiters: usize) {
        let line = format!(
            "rate_limit_waiters{{store=\"memory\",policy=\"long\",algorithm=\"log\"}} {waiters}\n"
        );
        let metrics = self.engine.metrics();
        until(&line, || metrics.render().contains(&line)).await;
    }

    fn waited(&self, policy: &str) -> bool {
        let line = format!("rate_limit_waited_total{{policy=\"{policy}\",mode=\"enforce\"}} 0\n");
        !self.engine.metrics().render().contains(&line)
    }
}

#[tokio::test]
async fn a_request_waits_for_units_if_it_has_the_time() {
    let served = Served::start().await;
    let mut client = Client::connect(served.http.address).await;
    let ask = json!({"policy": "short", "key": "alice"});
    assert_eq!(client.post("/v1/check", &ask).await.json()["allowed"], true);
    let asks = json!({"asks": [ask]});
    for (path, body) in [("/v1/check?wait=20", &ask), ("/v1/check_all?wait=20&status=429", &asks)] {
        let answer = client.post(path, body).await;
        assert_eq!((answer.status, &answer.json()["allowed"]), (200, &json!(true)), "{path}");
    }
    let reservation = json!({"policy": "short", "key": "alice", "cost": 1});
    let answer = client.post("/v1/reserve?wait=20.5", &reservation).await;
    assert_eq!(answer.json()["allowed"], true);
    let answer = client.get("/v1/check?policy=short&key=alice&wait=20").await;
    assert_eq!(answer.json()["allowed"], true);
    assert!(served.waited("short"));

    let mut redis = TcpStream::connect(served.resp).await.unwrap();
    redis.write_all(b"SG.CHECK short bob\r\nSG.CHECK short bob WAIT 20000\r\n").await.unwrap();
    redis.write_all(b"SG.RESERVE short bob COST 1 WAIT 20000\r\n").await.unwrap();
    redis.write_all(b"SG.ALL short bob 1 WAIT 20000\r\nQUIT\r\n").await.unwrap();
    let mut answers = String::new();
    redis.read_to_string(&mut answers).await.unwrap();
    assert!(answers.starts_with("*5\r\n:1\r\n") && answers.ends_with("+OK\r\n"), "{answers}");
    assert_eq!(answers.matches("*5\r\n:1\r\n").count(), 3, "{answers}");
    assert_eq!(answers.matches("*6\r\n:1\r\n").count(), 1, "{answers}");
}

#[tokio::test]
async fn a_request_that_would_wait_too_long_is_denied_at_once() {
    let served = Served::start().await;
    let mut client = Client::connect(served.http.address).await;
    let path = "/v1/check?policy=long&key=alice";
    assert_eq!(client.get(&format!("{path}&cost=2")).await.json()["allowed"], true);
    for wait in ["0", "1", "24.0"] {
        let answer = client.get(&format!("{path}&wait={wait}")).await;
        assert_eq!(answer.json()["allowed"], false, "{wait}");
    }
    assert!(!served.waited("long"));
    for wait in ["30.1", "-1", "1s", "inf", "", "NaN"] {
        let answer = client.get(&format!("{path}&wait={wait}")).await;
        assert_eq!(answer.status, 400, "{wait}");
        assert!(answer.text().contains("use 0 to 30 seconds"), "{}", answer.text());
    }
    let ask = json!({"policy": "long", "key": "alice"});
    for path in ["/v1/peek?wait=1", "/v1/batch?wait=1", "/v1/usage?wait=1"] {
        assert_eq!(client.post(path, &ask).await.status, 400, "{path}");
    }
}

// The units that come back belong to the next that still wait.
#[tokio::test]
async fn closed_connections_stop_waiting() {
    let served = Served::start().await;
    let mut client = Client::connect(served.http.address).await;
    let ask = json!({"policy": "long", "key": "alice", "cost": 2});
    let taken = client.post("/v1/check", &ask).await.json();
    let query = "GET /v1/check?policy=long&key=alice&wait=30 HTTP/1.1\r\nhost: a\r\n\r\n";

    let mut gone = Client::connect(served.http.address).await;
    gone.write(query.as_bytes()).await;
    served.until_waiting(1).await;
    drop(gone);
    served.until_waiting(0).await;

    let mut gone = TcpStream::connect(served.resp).await.unwrap();
    gone.write_all(b"SG.CHECK long alice WAIT 30000\r\n").await.unwrap();
    served.until_waiting(1).await;
    // What it sends meanwhile is kept, and does not hide that it goes.
    gone.write_all(b"PING\r\n").await.unwrap();
    drop(gone);
    served.until_waiting(0).await;

    let mut redis = TcpStream::connect(served.resp).await.unwrap();
    redis.write_all(b"SG.CHECK long alice WAIT 30000\r\n").await.unwrap();
    served.until_waiting(1).await;
    redis.write_all(b"PING\r\nQUIT\r\n").await.unwrap();
    let mut second = Client::connect(served.http.address).await;
    second.write(query.as_bytes()).await;
    served.until_waiting(2).await;
    // No more than two may wait.
    let third = client.get("/v1/check?policy=long&key=alice&wait=30").await;
    assert_eq!(third.json()["allowed"], false);

    let refund = json!({"policy": "long", "key": "alice", "receipt": taken["receipt"]});
    assert_eq!(client.post("/v1/refund", &refund).await.json()["refunded"], 2);
    assert_eq!(second.read(true).await.unwrap().json()["allowed"], true);
    let mut answers = String::new();
    redis.read_to_string(&mut answers).await.unwrap();
    assert!(
        answers.starts_with("*5\r\n:1\r\n") && answers.ends_with("+PONG\r\n+OK\r\n"),
        "{answers}"
    );
}
