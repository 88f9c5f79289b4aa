//! schemathesis against the document that the server gives of itself.
//!
//! It generates a bounded number of valid and invalid requests from a fixed seed. It reports replies that
//! the document does not describe, valid requests that are rejected, invalid ones that are accepted, and
//! server errors.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use slidegate::{Algorithm, Cost, Quota};
use slidegate_server::http::{HttpSettings, HttpState};
use slidegate_server::spec::{KeyPart, MatchSpec, MissingKey, PolicySpec, Rollout, RuleSpec, Spec};
use slidegate_testkit::server::PythonTool;

use crate::http_client::{Client, Running, engine};

const REQUIREMENTS: &str = include_str!("schemathesis_files/requirements.txt");

/// The number of requests of each kind to each path.
const EXAMPLES: &str = "25";

fn spec() -> Spec {
    let mut api = PolicySpec::new("api", vec![Quota::per_minute(100)]);
    api.tiers.insert("gold".to_owned(), vec![Quota::per_minute(5000)]);
    let two = vec![Quota::per_second(1), Quota::per_hour(3)];
    let mut even = PolicySpec::new("even", vec![Quota::per_minute(10)]);
    even.algorithm = Algorithm::Gcra;
    let mut shadow = PolicySpec::new("shadow", vec![Quota::per_minute(1)]);
    shadow.rollout = Rollout::Shadow;
    let rule = RuleSpec {
        name: "all".to_owned(),
        matches: MatchSpec::default(),
        key: vec![KeyPart::Address],
        policy: "tight".to_owned(),
        tier_header: None,
        cost: Cost::ONE,
        missing: MissingKey::Skip,
        ..RuleSpec::default()
    };
    Spec {
        policies: vec![api, PolicySpec::new("tight", two), even, shadow],
        rules: vec![rule],
        ..Spec::default()
    }
}

/// The document with the policies there are as the only ones, and receipts that were given out, so
/// that requests reach what they are about.
fn with_what_there_is(mut document: Value, receipts: &[Value]) -> Value {
    for asked in ["Refund", "Settlement"] {
        let schema = &mut document["components"]["schemas"][asked];
        schema["properties"]["receipt"] = json!({"enum": receipts});
    }
    let name = &mut document["components"]["schemas"]["PolicyName"];
    name["enum"] = name["examples"].clone();
    let tier = json!({"enum": ["gold", null]});
    for schema in document["components"]["schemas"].as_object_mut().unwrap().values_mut() {
        if let Some(place) = schema.pointer_mut("/properties/tier") {
            *place = tier.clone();
        }
    }
    document
}

fn run(document: &Path, address: &str, mode: &str) -> std::process::Output {
    let tool = PythonTool::install("schemathesis-4.32.5", REQUIREMENTS).unwrap();
    let config = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/protocols/schemathesis_files/schemathesis.toml");
    let mut command = tool.command("from schemathesis.cli import schemathesis; schemathesis()");
    command.arg("--config-file").arg(config).arg("run").arg(document);
    command.args(["--url", address, "--max-examples", EXAMPLES, "--seed", "1", "--no-color"]);
    command.args(["--checks", "all", "--mode", mode, "--generation-database", "none"]);
    command.output().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemathesis_finds_nothing() {
    let (engine, _clock) = engine(&spec());
    let settings = HttpSettings { wait_max: Duration::from_millis(20), ..HttpSettings::default() };
    let server = Running::of(Arc::new(HttpState::new(engine, settings))).await;
    let mut client = Client::connect(server.address).await;
    let document = client.get("/openapi.json").await.json();
    let mut receipts = Vec::new();
    for cost in [1, 3] {
        let ask = json!({"policy": "api", "key": "alice", "cost": cost});
        receipts.push(client.post("/v1/check", &ask).await.json()["receipt"].clone());
    }
    let address = format!("http://{}", server.address);
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR"));
    let reaching = with_what_there_is(document.clone(), &receipts);
    for (name, document, mode) in [("all", document, "all"), ("reaching", reaching, "positive")] {
        let path = folder.join(format!("openapi-{name}.json"));
        fs::write(&path, document.to_string()).unwrap();
        let address = address.clone();
        let output = tokio::task::spawn_blocking(move || run(&path, &address, mode)).await.unwrap();
        let report = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{name}: {report}{errors}");
        // It did ask.
        assert!(report.contains("Tested: 15"), "{name}: {report}");
        assert_eq!(server.connections.panics.get(), 0);
    }
}
