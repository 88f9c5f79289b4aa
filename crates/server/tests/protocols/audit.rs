//! Decisions written down.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use slidegate::{Cost, Quota};
use slidegate_gate::{Caller, Page};
use slidegate_server::config::{AuditDecisions, AuditSettings};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::run::Audit;
use slidegate_server::spec::{PolicySpec, Spec};

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn settings(folder: &Folder, decisions: AuditDecisions) -> AuditSettings {
    AuditSettings {
        path: folder.0.join("audit.log"),
        decisions,
        sample_percent: 10,
        size_max: 1 << 20,
        files: 3,
    }
}

/// Asks 5 times for each of 20 keys of limit 2, and waits until all is written.
async fn ask(settings: &AuditSettings, secret_keys: bool) {
    let policy = PolicySpec { secret_keys, ..PolicySpec::new("api", vec![Quota::per_hour(2)]) };
    let spec = Spec { policies: vec![policy], ..Spec::default() };
    let audit = Arc::new(Audit::start(settings).unwrap());
    let engine = Engine::with_observer(&spec, Some(audit), &mut NoRestore).unwrap();
    for key in 0..20 {
        for _ in 0..5 {
            let key = format!("token-{key}");
            let _ = engine
                .plan()
                .gate("api")
                .unwrap()
                .check(key.as_bytes(), None, Cost::ONE, Caller::IN_PROCESS)
                .await;
        }
    }
}

fn lines(path: &Path) -> Vec<Value> {
    fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn denials_all_or_a_sample() {
    for (decisions, count) in
        [(AuditDecisions::Denials, 60), (AuditDecisions::All, 100), (AuditDecisions::Sampled, 10)]
    {
        let folder = Folder::new(&format!("audit_{decisions:?}"));
        let settings = settings(&folder, decisions);
        ask(&settings, false).await;
        let lines = lines(&settings.path);
        assert_eq!(lines.len(), count, "{decisions:?}");
        if decisions == AuditDecisions::Denials {
            assert_eq!((&lines[0]["policy"], &lines[0]["key"]), (&"api".into(), &"token-0".into()));
            assert_eq!(lines[0]["outcome"], "denied");
            assert!(lines[0]["retry_after"].as_f64().unwrap() > 3500.0);
        }
    }
}

#[tokio::test]
async fn secret_keys_are_told_apart_and_not_told() {
    let folder = Folder::new("audit_secret");
    let settings = settings(&folder, AuditDecisions::All);
    ask(&settings, true).await;
    let text = fs::read_to_string(&settings.path).unwrap();
    assert!(!text.contains("token"));
    let mut keys: Vec<String> =
        lines(&settings.path).iter().map(|line| line["key"].to_string()).collect();
    keys.dedup();
    assert_eq!(keys.len(), 20);
}

#[tokio::test]
async fn files_give_way_when_they_are_full_and_the_oldest_goes() {
    let folder = Folder::new("audit_rotated");
    let settings = AuditSettings { size_max: 2000, ..settings(&folder, AuditDecisions::All) };
    ask(&settings, false).await;
    let mut names: Vec<_> =
        fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2"]);
    for name in names {
        assert!(fs::metadata(folder.0.join(name)).unwrap().len() <= 2000);
    }
    let last = lines(&settings.path);
    assert_eq!(last.last().unwrap()["key"], "token-19");
}

// Losing audit lines in silence is worse than losing them.
#[tokio::test]
async fn lines_that_were_written_and_lines_that_failed_are_counted() {
    let folder = Folder::new("audit_counts");
    let full = AuditSettings { path: "/dev/full".into(), ..settings(&folder, AuditDecisions::All) };
    let spec = Spec {
        policies: vec![PolicySpec::new("api", vec![Quota::per_hour(2)])],
        ..Spec::default()
    };
    for (settings, result) in
        [(settings(&folder, AuditDecisions::All), "written"), (full, "failed")]
    {
        let audit = Arc::new(Audit::start(&settings).unwrap());
        let counts = Arc::clone(audit.counts());
        let engine = Engine::with_observer(&spec, Some(audit), &mut NoRestore).unwrap();
        for _ in 0..5 {
            let plan = engine.plan();
            let gate = plan.gate("api").unwrap();
            let _ = gate.check(b"bob", None, Cost::ONE, Caller::IN_PROCESS).await;
        }
        // The writer flushes its lines before the log is closed.
        drop(engine);
        let mut page = Page::new();
        counts.write(&mut page);
        let text = page.finish();
        let line = format!("slidegate_audit_lines_total{{result=\"{result}\"}} 5");
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
