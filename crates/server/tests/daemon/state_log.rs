//! What the log says about stores, decisions and memory while the daemon runs.

use std::fs;

use slidegate_testkit::server::{RedisServer, poll};

use crate::process::{Daemon, Folder};

// At three in the morning the log is what there is.
#[test]
fn a_redis_that_fails_and_returns_is_logged() {
    let folder = Folder::new("log-redis");
    let mut redis = RedisServer::start().unwrap();
    let config = format!(
        "slidegate: 1\nstores:\n  shared: {{redis: \"{}\"}}\npolicies:\n  - name: api\n    \
         store: shared\n    failure_mode: allow\n    quotas: [1000000/hour]\n",
        redis.url()
    );
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &config));
    // The first checks may come before the connection.
    let degraded = || daemon.metric("rate_limit_degraded_total{policy=\"api\"").unwrap_or(0.0);
    poll("a decision of Redis", || {
        let before = degraded();
        let _ = daemon.check("api", "k");
        Ok((degraded() <= before).then_some(()))
    })
    .unwrap();
    redis.suspend().unwrap();
    let says = |words: &str| {
        poll(words, || {
            assert!(daemon.check("api", "k"));
            Ok(daemon.said().contains(words).then_some(()))
        })
        .unwrap_or_else(|error| panic!("{error}: {}", daemon.said()));
    };
    says("store shared: degraded: failure modes decide, because Redis does not: Redis: ");
    redis.resume().unwrap();
    says("store shared: no longer degraded: Redis decides again; failure modes decided ");
    let said = daemon.said();
    let lines: Vec<&str> =
        said.lines().filter(|line| line.contains("WARN") && line.contains("egraded: ")).collect();
    // The first checks, before the connection, may be an outage of their own.
    assert!(lines.len() <= 4, "{said}");
}

#[test]
fn memory_that_is_full_is_logged_once() {
    let folder = Folder::new("log-memory");
    let config = "slidegate: 1\nmemory: {limit_mb: 1}\npolicies:\n  - name: api\n    \
                  quotas: [10/hour]\n";
    let daemon = Daemon::with_config(&folder.write("limits.yaml", config));
    let ask = |key: usize| format!(r#"{{"policy": "api", "key": "{key}"}}"#);
    for start in (0..30_000).step_by(500) {
        let asks: Vec<String> = (start..start + 500).map(ask).collect();
        let body = format!(r#"{{"asks": [{}]}}"#, asks.join(","));
        let stream = std::net::TcpStream::connect(daemon.http).unwrap();
        assert_eq!(crate::process::post(stream, "/v1/batch", &body).0, 200);
    }
    daemon.hears("policy api: the first key did not fit into its 1024 KiB of memory");
    assert_eq!(daemon.said().matches("the first key did not fit").count(), 1);
}

#[test]
fn lost_audit_lines_and_damaged_snapshots_are_problems_in_the_log() {
    let folder = Folder::new("log-loss");
    let state = folder.path("state");
    fs::create_dir(&state).unwrap();
    fs::write(state.join("api.log.1.snapshot"), "damaged").unwrap();
    let config = format!(
        "slidegate: 1\nsnapshot: {{path: {}, start_empty_if_damaged: true}}\naudit: {{path: /dev/full, \
         decisions: all, required: true}}\npolicies:\n  - name: api\n    quotas: [1000/hour]\n",
        state.display()
    );
    let daemon = Daemon::with_config(&folder.write("limits.yaml", &config));
    let said = daemon.said();
    let line = said.lines().find(|line| line.contains("starting without these counts")).unwrap();
    assert!(line.contains("WARN"), "{line}");
    poll("denials", || Ok((!daemon.check("api", "k")).then_some(()))).unwrap();
    // Another node can answer.
    let (status, body) = daemon.admin("GET", "/readyz");
    assert!(status == 503 && body.contains("audit.required"), "{status} {body}");
    daemon.hears("audit log /dev/full: cannot write, lines wait");
    daemon.hears("lines are lost");
}
