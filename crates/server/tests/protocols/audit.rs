//! Decisions written down.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use slidegate::{Cost, Quota};
use slidegate_gate::{Caller, Page, Rollout};
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
        fsync: true,
        required: false,
        key_secret: None,
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

#[test]
fn denials_without_a_key_are_written() {
    let folder = Folder::new("audit_without_key");
    let settings = settings(&folder, AuditDecisions::Denials);
    let policy =
        |name, rollout| PolicySpec { rollout, ..PolicySpec::new(name, vec![Quota::per_hour(2)]) };
    let policies = vec![
        policy("enforced", Rollout::Enforce),
        policy("shadow", Rollout::Shadow),
        policy("off", Rollout::Off),
    ];
    let spec = Spec { policies, ..Spec::default() };
    let audit = Arc::new(Audit::start(&settings).unwrap());
    let engine = Engine::with_observer(&spec, Some(audit), &mut NoRestore).unwrap();
    for gate in engine.plan().gates() {
        assert_eq!(gate.deny_without_key(Caller::IN_PROCESS), gate.name() == "enforced");
    }
    // The writer writes its lines before the log is closed.
    drop(engine);
    let lines = lines(&settings.path);
    let outcomes: Vec<_> = lines.iter().map(|line| (&line["policy"], &line["outcome"])).collect();
    let expected = [("enforced", "no_key"), ("shadow", "shadow_denied")];
    assert_eq!(outcomes.len(), expected.len());
    for (found, (policy, outcome)) in outcomes.into_iter().zip(expected) {
        assert_eq!(found, (&policy.into(), &outcome.into()));
    }
    assert_eq!((&lines[0]["key"], &lines[0]["remaining"]), (&Value::Null, &Value::Null));
}

#[tokio::test]
async fn secret_keys_are_distinguishable_but_not_readable() {
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
    assert_eq!(names, ["audit.log", "audit.log.1", "audit.log.2", "audit.log.secret"]);
    for name in names {
        let mode = fs::metadata(folder.0.join(&name)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{name:?}");
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

fn secret_keys(settings: &AuditSettings) -> Vec<String> {
    let mut keys: Vec<String> =
        lines(&settings.path).iter().map(|line| line["key"].to_string()).collect();
    keys.dedup();
    keys
}

// An investigation spans restarts and nodes.
#[tokio::test]
async fn digests_of_secret_keys_are_the_same_after_a_restart_and_with_the_same_secret() {
    let folder = Folder::new("audit_digests");
    let own = settings(&folder, AuditDecisions::All);
    let mut digests = Vec::new();
    for _ in 0..2 {
        ask(&own, true).await;
        digests.push(secret_keys(&own));
        fs::remove_file(&own.path).unwrap();
    }
    assert_eq!(digests[0], digests[1]);
    let shared =
        AuditSettings { key_secret: Some(b"sixteen bytes or more".to_vec()), ..own.clone() };
    let mut configured = Vec::new();
    for name in ["one.log", "two.log"] {
        let settings = AuditSettings { path: folder.0.join(name), ..shared.clone() };
        ask(&settings, true).await;
        configured.push(secret_keys(&settings));
        assert!(!folder.0.join(format!("{name}.secret")).exists());
    }
    assert_eq!(configured[0], configured[1]);
    assert_ne!(configured[0], digests[0]);
}

fn audited(settings: &AuditSettings) -> (Arc<Audit>, Engine) {
    let spec = Spec {
        policies: vec![PolicySpec::new("api", vec![Quota::per_hour(1_000_000)])],
        ..Spec::default()
    };
    let audit = Arc::new(Audit::start(settings).unwrap());
    let observer: Arc<dyn slidegate_gate::Observer> = audit.clone();
    let engine = Engine::with_observer(&spec, Some(observer), &mut NoRestore).unwrap();
    (audit, engine)
}

async fn is_allowed(engine: &Engine) -> bool {
    let plan = engine.plan();
    let gate = plan.gate("api").unwrap();
    gate.check(b"bob", None, Cost::ONE, Caller::IN_PROCESS).await.decision.is_allowed()
}

async fn wait_until(what: &str, mut is_done: impl AsyncFnMut() -> bool) {
    let done = slidegate_testkit::server::poll_async(what, async || is_done().await.then_some(()));
    done.await.unwrap();
}

// Programs such as logrotate rename the file and send SIGHUP.
#[tokio::test]
async fn a_file_that_was_renamed_is_opened_again() {
    let folder = Folder::new("audit_reopen");
    let settings = settings(&folder, AuditDecisions::All);
    let (audit, engine) = audited(&settings);
    assert!(is_allowed(&engine).await);
    wait_until("the first line", async || audit.counts().get("written") == 1).await;
    let moved = folder.0.join("moved");
    fs::rename(&settings.path, &moved).unwrap();
    audit.reopen();
    wait_until("the new file", async || settings.path.exists()).await;
    assert!(is_allowed(&engine).await);
    wait_until("the second line", async || audit.counts().get("written") == 2).await;
    assert_eq!((lines(&moved).len(), lines(&settings.path).len()), (1, 1));
}

// A request that leaves no trace can be worse than one that is denied.
#[tokio::test]
async fn requests_are_denied_while_a_required_log_cannot_be_written() {
    let folder = Folder::new("audit_required");
    let pipe = folder.0.join("audit.pipe");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    // A pipe fails when its reader is gone, and works again when there is a new one.
    let reader = || fs::OpenOptions::new().read(true).write(true).open(&pipe).unwrap();
    for required in [false, true] {
        let first = reader();
        let settings = AuditSettings {
            path: pipe.clone(),
            required,
            ..settings(&folder, AuditDecisions::All)
        };
        let (audit, engine) = audited(&settings);
        assert!(is_allowed(&engine).await);
        wait_until("a line", async || audit.counts().get("written") == 1).await;
        drop(first);
        if !required {
            for _ in 0..100 {
                assert!(is_allowed(&engine).await, "requests do not depend on the log");
            }
            drop((audit, engine));
            continue;
        }
        wait_until("denials", async || !is_allowed(&engine).await).await;
        let plan = engine.plan();
        let asks = [b"one", b"two"].map(|key| slidegate_gate::Ask {
            gate: plan.gate("api").unwrap(),
            key,
            tier: None,
            cost: Cost::ONE,
        });
        let all = slidegate_gate::check_all(&asks, None, Caller::IN_PROCESS).await.unwrap();
        for decided in all {
            assert_eq!(decided.outcome, slidegate_gate::GateOutcome::Unrecorded);
            assert!(!decided.decision.is_allowed());
        }
        assert!(audit.counts().get("dropped") >= 3);
        let _second = reader();
        wait_until("allowances", async || is_allowed(&engine).await).await;
    }
}
