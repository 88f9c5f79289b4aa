//! Trace ids on denials, errors and in the audit log, over real sockets.
//!
//! What could go wrong: a denial that cannot be found in the traces, one with the trace id of another
//! request, or a client that can write arbitrary text into replies and logs.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use http::uri::PathAndQuery;
use serde_json::{Value, json};
use slidegate::{Algorithm, Cost, Quota};
use slidegate_server::config::{AuditDecisions, AuditSettings};
use slidegate_server::domain::Options;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::grpc::message::{
    DescriptorEntry, RateLimitDescriptor, RateLimitRequest, RateLimitResponse,
};
use slidegate_server::grpc::{self, GrpcLimits};
use slidegate_server::http::{HttpSettings, HttpState, ShedLoad};
use slidegate_server::run::Audit;
use slidegate_server::spec::{
    DescriptorSpec, DomainSpec, KeyPart, LimitSpec, MatchSpec, MissingKey, PolicySpec, RateSpec,
    RuleSpec, Spec, Unit,
};
use slidegate_testkit::server::poll_async;
use slidegate_tower::OverloadGuard;
use tokio::net::TcpListener;
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic_prost::ProstCodec;

use crate::http_client::{Client, JSON, Running, until};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// One request an hour, by every way there is.
fn spec() -> Spec {
    let rate = RateSpec { requests: 1, unit: Unit::Hour, algorithm: Algorithm::Log };
    let limit = LimitSpec { rate: Some(rate), name: None, replaces: Vec::new() };
    let user = DescriptorSpec { key: "user".to_owned(), limit: Some(limit), ..Default::default() };
    let rule = RuleSpec {
        name: "all".to_owned(),
        matches: MatchSpec::default(),
        key: vec![KeyPart::Address],
        policy: "one".to_owned(),
        tier_header: None,
        cost: Cost::ONE,
        missing: MissingKey::Skip,
        ..RuleSpec::default()
    };
    Spec {
        policies: vec![PolicySpec::new("one", vec![Quota::per_hour(1)])],
        rules: vec![rule],
        domains: vec![DomainSpec::new("shop", vec![user])],
        ..Spec::default()
    }
}

/// An engine whose denials are written down; its file is gone with it.
struct Audited {
    engine: Arc<Engine>,
    path: PathBuf,
}

impl Audited {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_file(&path);
        let settings = AuditSettings {
            path: path.clone(),
            decisions: AuditDecisions::Denials,
            sample_percent: 100,
            size_max: 1 << 20,
            files: 1,
            fsync: false,
            required: false,
            key_secret: None,
        };
        let audit = Arc::new(Audit::start(&settings).unwrap());
        let engine = Engine::with_observer(&spec(), Some(audit), &mut NoRestore).unwrap();
        Self { engine: Arc::new(engine), path }
    }

    async fn api(&self) -> Running {
        let state = HttpState::new(Arc::clone(&self.engine), HttpSettings::default());
        Running::of(Arc::new(state)).await
    }

    /// What was written down, when there is so much of it.
    async fn lines(&self, count: usize) -> Vec<Value> {
        let read = || fs::read_to_string(&self.path).unwrap_or_default();
        until("the audit log", || read().lines().count() >= count).await;
        read().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

impl Drop for Audited {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn traced(value: &str) -> String {
    format!("{JSON}traceparent: {value}\r\n")
}

#[tokio::test]
async fn a_denial_names_its_trace_in_the_answer_and_in_the_audit_log() {
    let audited = Audited::new("trace_ids_http.log");
    let server = audited.api().await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "one", "key": "alice"}).to_string();
    let fields = traced(PARENT);
    let allowed = client.send("POST", "/v1/check", &fields, &ask).await.json();
    assert_eq!((&allowed["allowed"], &allowed["trace_id"]), (&json!(true), &Value::Null));

    for (method, path, body) in [
        ("POST", "/v1/check", ask.as_str()),
        ("POST", "/v1/check?status=429", &ask),
        ("POST", "/v1/peek", &ask),
        ("POST", "/v1/reserve", r#"{"policy": "one", "key": "alice", "cost": 1}"#),
        ("GET", "/v1/check?policy=one&key=alice", ""),
        ("GET", "/v1/check?policy=one&key=alice&status=429", ""),
    ] {
        let denied = client.send(method, path, &fields, body).await;
        assert_eq!(denied.json()["trace_id"], TRACE, "{path}: {}", denied.text());
        let alone = client.send(method, path, JSON, body).await;
        assert!(!alone.text().contains("trace_id"), "{path}: {}", alone.text());
    }
    let lines = audited.lines(10).await;
    let traces: Vec<_> = lines.iter().map(|line| line.get("trace_id").cloned()).collect();
    let (expected, none) = (Some(json!(TRACE)), None);
    // A look is not a decision.
    assert_eq!(traces, [expected, none].into_iter().cycle().take(10).collect::<Vec<_>>());
}

#[tokio::test]
async fn batch_error_and_forward_auth_replies_carry_the_trace_id() {
    let audited = Audited::new("trace_ids_more.log");
    let server = audited.api().await;
    let mut client = Client::connect(server.address).await;
    let fields = traced(PARENT);
    let two = json!({"asks": [{"policy": "one", "key": "a"}, {"policy": "one", "key": "b"}]});
    let two = two.to_string();
    client.send("POST", "/v1/check_all", JSON, &two).await;
    let together = client.send("POST", "/v1/check_all", &fields, &two).await.json();
    assert_eq!(together["answers"][1]["trace_id"], TRACE, "{together}");
    let together = client.send("POST", "/v1/check_all?status=429", &fields, &two).await;
    assert_eq!((together.status, &together.json()["trace_id"]), (429, &json!(TRACE)));

    let several = json!({"asks": [
        {"policy": "one", "key": "new"}, {"policy": "one", "key": "a"}, {"policy": "on", "key": "a"},
    ]});
    let several = client.send("POST", "/v1/batch", &fields, &several.to_string()).await.json();
    let expected: Vec<_> =
        (0..3).map(|at| several["answers"][at].get("trace_id").cloned()).collect();
    assert_eq!(expected, [None, Some(json!(TRACE)), Some(json!(TRACE))], "{several}");

    for (method, path, status) in
        [("GET", "/v1/chekc", 404), ("PUT", "/v1/check", 405), ("POST", "/v1/check", 400)]
    {
        let refused = client.send(method, path, &fields, "{").await;
        let expected = (refused.status, refused.json()["trace_id"].clone());
        assert_eq!(expected, (status, json!(TRACE)), "{path}");
    }

    let original = "x-original-method: GET\r\nx-original-uri: /\r\nx-original-host: a.example\r\n";
    let fields = format!("{original}traceparent: {PARENT}\r\n");
    assert_eq!(client.send("GET", "/auth", &fields, "").await.status, 204);
    let denied = client.send("GET", "/auth", &fields, "").await;
    assert_eq!((denied.status, &denied.json()["trace_id"]), (429, &json!(TRACE)));
    let last = audited.lines(6).await.pop().unwrap();
    assert_eq!(last["trace_id"], TRACE, "{last}");
}

#[tokio::test]
async fn invalid_trace_ids_are_not_repeated() {
    let audited = Audited::new("trace_ids_forged.log");
    let server = audited.api().await;
    let mut client = Client::connect(server.address).await;
    let ask = json!({"policy": "one", "key": "alice"}).to_string();
    client.send("POST", "/v1/check", JSON, &ask).await;
    let wrong = [
        "<script>".to_owned(),
        PARENT.to_uppercase(),
        format!("{PARENT}-more"),
        format!("{PARENT}\r\ntraceparent: {PARENT}"),
        format!("00-{}-00f067aa0ba902b7-01", "0".repeat(32)),
    ];
    for value in &wrong {
        let denied = client.send("POST", "/v1/check", &traced(value), &ask).await;
        assert!(!denied.text().contains("trace_id"), "{value}: {}", denied.text());
    }
    for line in audited.lines(wrong.len()).await {
        assert_eq!(line.get("trace_id"), None, "{line}");
    }
}

#[tokio::test]
async fn shed_requests_carry_the_trace_id() {
    let audited = Audited::new("trace_ids_shed.log");
    let guard = OverloadGuard::builder("http").concurrency_max(1).queue_max(0).build().unwrap();
    let state = HttpState::new(Arc::clone(&audited.engine), HttpSettings::default());
    let server = Running::of(Arc::new(ShedLoad::new(state, Some(guard)))).await;
    // The first request holds the only place as long as its body is on its way.
    let mut slow = Client::connect(server.address).await;
    slow.write(b"POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n").await;
    slow.write(format!("{JSON}\r\n").as_bytes()).await;
    let mut client = Client::connect(server.address).await;
    let fields = traced(PARENT);
    let shed = poll_async("a request to be shed", async || {
        let answer = client.send("GET", "/v1/policies", &fields, "").await;
        (answer.status == 503).then_some(answer)
    });
    assert_eq!(shed.await.unwrap().json()["trace_id"], TRACE);
}

#[tokio::test]
async fn metadata_of_grpc_goes_to_the_audit_log() {
    let audited = Audited::new("trace_ids_grpc.log");
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service =
        grpc::Service::new(Arc::clone(&audited.engine), Arc::new(Options::default())).await;
    let served = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        let (limits, never) = (GrpcLimits::default(), std::future::pending());
        let _ = grpc::serve(stream, service, limits, Arc::default(), never).await;
    });
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let mut client = Grpc::new(channel.connect().await.unwrap());
    for (parent, code) in [(None, 1), (Some(PARENT), 2), (None, 2)] {
        let entry = DescriptorEntry { key: "user".to_owned(), value: "alice".to_owned() };
        let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
        let (domain, descriptors) = ("shop".to_owned(), vec![descriptor]);
        let mut request =
            tonic::Request::new(RateLimitRequest { domain, descriptors, hits_addend: 0 });
        if let Some(parent) = parent {
            request.metadata_mut().insert("traceparent", parent.parse().unwrap());
        }
        client.ready().await.unwrap();
        let path: PathAndQuery = format!("/{}/ShouldRateLimit", grpc::NAME).parse().unwrap();
        let codec = ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
        let answer = client.unary(request, path, codec).await.unwrap().into_inner();
        assert_eq!(answer.overall_code, code);
    }
    let lines = audited.lines(2).await;
    assert_eq!(lines[0]["trace_id"], TRACE, "{lines:?}");
    assert_eq!(lines[1].get("trace_id"), None, "{lines:?}");
    served.abort();
}
