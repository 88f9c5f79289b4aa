//! Every query of the Grafana dashboard, and every metric of the alerts, with a real Prometheus that
//! scrapes a real daemon. Grafana itself is not run.

use std::time::Duration;

use serde_json::Value;
use slidegate_testkit::server::{Prometheus, RedisServer, poll_for};

use crate::process::{Daemon, Folder};

const DASHBOARD: &str = include_str!("../../../../deploy/grafana/slidegate.json");
const ALERTS: &str = include_str!("../../../../deploy/prometheus/alerts.yaml");

/// Queries without a result while nothing is wrong. Each is checked for its syntax.
const MAY_BE_EMPTY: &[&str] = &["Reload: {{result}}"];

/// Two scrapes of a rate, a report of the Redis servers every 15 s, and a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Returns the title and the query of each target and annotation, with Grafana's variables replaced.
fn queries(dashboard: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut add = |title: String, query: &Value| {
        let query = query.as_str().unwrap().replace("$__rate_interval", "20s");
        let query = ["$job", "$instance", "$policy"]
            .iter()
            .fold(query, |query, name| query.replace(name, ".+"));
        assert!(!query.contains('$'), "{query} has an unknown variable");
        found.push((title, query));
    };
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let title =
                [&panel["title"], &target["legendFormat"]].map(|text| text.as_str().unwrap());
            add(title.join(": "), &target["expr"]);
        }
    }
    for annotation in dashboard["annotations"]["list"].as_array().unwrap() {
        if annotation["expr"].is_string() {
            add(annotation["titleFormat"].as_str().unwrap().to_owned(), &annotation["expr"]);
        }
    }
    found
}

/// Returns the selector and the label of each `label_values(SELECTOR, LABEL)`.
fn variables(dashboard: &Value) -> Vec<(String, String)> {
    let list = dashboard["templating"]["list"].as_array().unwrap();
    let queries = list.iter().filter_map(|variable| variable["definition"].as_str());
    let parse = |query: &str| {
        let inner = query.strip_prefix("label_values(")?.strip_suffix(')')?;
        let (selector, label) = inner.rsplit_once(", ")?;
        Some((selector.replace("$job", ".+"), label.to_owned()))
    };
    queries.map(|query| parse(query).unwrap_or_else(|| panic!("{query}"))).collect()
}

/// Returns the names of the daemon's metrics in a text, without the parts of a histogram.
fn metric_names(text: &str) -> Vec<&str> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let words = text.split(|letter| !is_part(letter));
    words
        .filter(|word| ["rate_limit_", "slidegate_"].iter().any(|start| word.starts_with(start)))
        .collect()
}

#[test]
fn every_panel_and_every_alert_has_data() {
    let (folder, redis) =
        (Folder::new("grafana"), RedisServer::builder().max_memory(100_000_000, "noeviction"));
    let redis = redis.start().unwrap();
    let (snapshots, audit) = (folder.path("snapshots"), folder.path("audit.log"));
    let config = format!(
        "snapshot: {{path: {}, interval: 1s}}
audit: {{path: {}}}
stores: {{shared: {{redis: \"{}\", deadline: 10s}}}}
policies:
  - {{name: local, quotas: [3/minute]}}
  - {{name: shared, quotas: [3/minute], store: shared}}
  - {{name: shadow, quotas: [3/minute], mode: shadow}}
",
        snapshots.display(),
        audit.display(),
        redis.url(),
    );
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &config));
    let prometheus = Prometheus::start(&[daemon.announced("admin")]).unwrap();
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let queries = queries(&dashboard);
    assert!(queries.len() > 30, "{}", queries.len());
    let mut left: Vec<&(String, String)> = queries.iter().collect();
    let done = poll_for(PATIENCE, "data in every panel", || {
        for policy in ["local", "shared", "shadow"] {
            daemon.allowed(policy, "alice", 5);
        }
        let mut empty = Vec::new();
        for query in &left {
            // An error of the syntax ends the test at once.
            if prometheus.query(&query.1)?.is_empty() {
                empty.push(*query);
            }
        }
        left = empty;
        let is_done = left.iter().all(|(title, _)| MAY_BE_EMPTY.contains(&title.as_str()));
        Ok(is_done.then_some(()))
    });
    assert!(done.is_ok(), "{done:?}: without data: {left:#?}");

    for (selector, label) in variables(&dashboard) {
        let values = prometheus.label_values(&selector, &label).unwrap();
        assert!(!values.is_empty(), "{label} of {selector}");
    }
    let rules = ALERTS.lines().filter(|line| !line.trim_start().starts_with('#'));
    let rules = rules.collect::<Vec<_>>().join("\n");
    let names = metric_names(&rules);
    assert!(names.len() > 15, "{names:?}");
    for name in names {
        assert!(!prometheus.query(name).unwrap().is_empty(), "no daemon reports {name}");
    }
    // The values are right, not only there: one policy in shadow mode, two that deny.
    let shadow =
        prometheus.query("rate_limit_requests_total{outcome=\"shadow_denied\"} > 0").unwrap();
    assert_eq!(shadow.len(), 1, "{shadow:?}");
    assert_eq!(shadow[0]["metric"]["policy"], "shadow");
    let rejected = prometheus.query("sum by (policy) (rate_limit_rejected_total) > 0").unwrap();
    assert_eq!(rejected.len(), 2, "{rejected:?}");
}
