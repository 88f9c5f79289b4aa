//! Limits at work: switches, several at once, another configuration, a restart.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use slidegate::{Algorithm, Cost, ManualClock, OnFull, Quota};
use slidegate_gate::{Ask, Caller, GateOutcome, check_all};
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::run::Snapshots;
use slidegate_server::spec::{
    CandidateSpec, MemorySpec, PolicySpec, RedisPlace, RedisSpec, Rollout, Spec, StoreSpec,
};

fn policy(name: &str, limit: u32) -> PolicySpec {
    PolicySpec::new(name, vec![Quota::per_minute(limit)])
}

fn spec(policies: impl IntoIterator<Item = PolicySpec>) -> Spec {
    Spec { policies: policies.into_iter().collect(), ..Spec::default() }
}

fn clock() -> ManualClock {
    ManualClock::new(Duration::from_secs(1_700_000_000))
}

fn engine(spec: &Spec) -> (Engine, ManualClock) {
    let clock = clock();
    (Engine::with_clock(spec, Some(clock.clone()), &mut NoRestore).unwrap(), clock)
}

async fn allowed(engine: &Engine, policy: &str, key: &str, times: usize) -> usize {
    let plan = engine.plan();
    let gate = plan.gate(policy).unwrap();
    let mut allowed = 0;
    for _ in 0..times {
        allowed += usize::from(
            gate.check(key.as_bytes(), None, Cost::ONE, Caller::IN_PROCESS)
                .await
                .decision
                .is_allowed(),
        );
    }
    allowed
}

async fn used(engine: &Engine, policy: &str, key: &str) -> u64 {
    engine.plan().gate(policy).unwrap().usage(key.as_bytes(), None).await.unwrap().units(0)
}

#[tokio::test]
async fn switches_say_how_far_a_limit_is_enforced() {
    let shadow = PolicySpec { rollout: Rollout::Shadow, ..policy("shadow", 2) };
    let off = PolicySpec { rollout: Rollout::Off, ..policy("off", 2) };
    let (engine, _) = engine(&spec([policy("on", 2), shadow, off]));
    assert_eq!(allowed(&engine, "on", "k", 5).await, 2);
    assert_eq!(allowed(&engine, "shadow", "k", 5).await, 5);
    assert_eq!(allowed(&engine, "off", "k", 5).await, 5);
    let plan = engine.plan();
    let counts = |name: &str| {
        let counters = plan.gate(name).unwrap().counters().unwrap();
        [GateOutcome::Allowed, GateOutcome::Denied, GateOutcome::ShadowDenied, GateOutcome::Off]
            .map(|outcome| counters.outcome(outcome))
    };
    assert_eq!(counts("on"), [2, 3, 0, 0]);
    assert_eq!(counts("shadow"), [2, 0, 3, 0]);
    assert_eq!(counts("off"), [0, 0, 0, 5]);
    assert_eq!(used(&engine, "off", "k").await, 0);
}

#[tokio::test]
async fn a_canary_is_enforced_for_its_share_of_keys_and_always_the_same() {
    let canary = PolicySpec { enforce_percent: 30, ..policy("canary", 1) };
    let (engine, clock) = engine(&spec([canary]));
    let mut denied = Vec::new();
    for round in 0..2 {
        clock.advance(Duration::from_secs(61));
        let mut now = Vec::new();
        for key in 0..1000 {
            if allowed(&engine, "canary", &key.to_string(), 2).await == 1 {
                now.push(key);
            }
        }
        assert!((240..360).contains(&now.len()), "{} of 1000", now.len());
        assert!(round == 0 || now == denied);
        denied = now;
    }
}

#[tokio::test]
async fn candidates_are_evaluated_but_deny_no_request() {
    let quotas = vec![Quota::per_minute(1)];
    let candidate = CandidateSpec { quotas, algorithm: Algorithm::Log };
    let (engine, _) =
        engine(&spec([PolicySpec { candidate: Some(candidate), ..policy("api", 4) }]));
    assert_eq!(allowed(&engine, "api", "k", 5).await, 4);
    assert_eq!(engine.plan().gate("api").unwrap().counters().unwrap().candidate_denied(), 4);
}

#[tokio::test]
async fn several_limits_are_all_or_nothing_and_shadows_stand_in_nobodys_way() {
    let shadow = PolicySpec { rollout: Rollout::Shadow, ..policy("shadow", 1) };
    let (engine, _) = engine(&spec([policy("wide", 9), policy("narrow", 2), shadow]));
    let plan = engine.plan();
    let ask =
        |name: &str| Ask { gate: plan.gate(name).unwrap(), key: b"k", tier: None, cost: Cost::ONE };
    let asks = [ask("wide"), ask("narrow"), ask("shadow")];
    let mut results = Vec::new();
    for _ in 0..3 {
        let answers = check_all(&asks, None, Caller::IN_PROCESS).await.unwrap();
        results.push(
            answers.iter().map(|it| (it.decision.is_allowed(), it.is_over())).collect::<Vec<_>>(),
        );
    }
    assert_eq!(results[0], [(true, false), (true, false), (true, false)]);
    assert_eq!(results[1], [(true, false), (true, false), (true, true)]);
    assert_eq!(results[2], [(false, false), (false, true), (false, true)]);
    drop(plan);
    assert_eq!(used(&engine, "wide", "k").await, 2);
    assert_eq!(used(&engine, "shadow", "k").await, 1);
    let plan = engine.plan();
    assert_eq!(
        plan.gate("wide").unwrap().counters().unwrap().outcome(GateOutcome::DeniedByOther),
        1
    );
}

#[tokio::test]
async fn another_configuration_keeps_what_can_be_kept() {
    let (engine, _) = engine(&spec([policy("same", 3), policy("raised", 3), policy("gone", 3)]));
    for name in ["same", "raised", "gone"] {
        assert_eq!(allowed(&engine, name, "k", 3).await, 3);
    }
    engine.swap(&spec([policy("new", 1), policy("raised", 5), policy("same", 3)])).unwrap();
    assert_eq!(allowed(&engine, "same", "k", 9).await, 0);
    assert_eq!(allowed(&engine, "raised", "k", 9).await, 2);
    assert_eq!(allowed(&engine, "new", "k", 9).await, 1);
    assert!(engine.plan().gate("gone").is_none());
    assert_eq!(
        engine.plan().gate("same").unwrap().counters().unwrap().outcome(GateOutcome::Allowed),
        3
    );
    engine.swap(&spec([policy("raised", 2)])).unwrap();
    assert_eq!(allowed(&engine, "raised", "k", 9).await, 0);
}

#[tokio::test]
async fn a_removed_policy_continues_if_it_returns_within_its_longest_window() {
    let gold = [("gold".to_owned(), vec![Quota::per_hour(5)])];
    let tiered = || PolicySpec { tiers: gold.clone().into(), ..policy("tiered", 3) };
    let both = || spec([policy("plain", 3), tiered()]);
    let (engine, clock) = engine(&both());
    for name in ["plain", "tiered"] {
        assert_eq!(allowed(&engine, name, "k", 5).await, 3);
    }
    engine.swap(&spec([policy("other", 1)])).unwrap();
    engine.drop_expired();
    clock.advance(Duration::from_secs(59));
    engine.swap(&both()).unwrap();
    assert_eq!(allowed(&engine, "plain", "k", 5).await, 0);
    assert_eq!(allowed(&engine, "tiered", "k", 5).await, 0);
    // Removed again, the time begins again.
    assert_eq!(allowed(&engine, "plain", "late", 5).await, 3);
    engine.swap(&spec([])).unwrap();
    clock.advance(Duration::from_secs(59));
    engine.drop_expired();
    engine.swap(&both()).unwrap();
    assert_eq!(allowed(&engine, "plain", "late", 5).await, 0);
}

#[tokio::test]
async fn state_of_a_removed_policy_is_dropped_after_its_longest_window() {
    let (engine, clock) = engine(&spec([policy("gone", 3), policy("kept", 3)]));
    assert_eq!(allowed(&engine, "gone", "k", 3).await, 3);
    let state = {
        let plan = engine.plan();
        Arc::downgrade(plan.gate("gone").unwrap().store())
    };
    engine.swap(&spec([policy("kept", 3)])).unwrap();
    clock.advance(Duration::from_secs(59));
    engine.drop_expired();
    assert!(state.upgrade().is_some());
    clock.advance(Duration::from_secs(2));
    engine.drop_expired();
    assert!(state.upgrade().is_none());
}

// Configurations that rename a policy again and again must not add up.
#[tokio::test]
async fn state_of_removed_policies_takes_at_most_half_of_the_memory() {
    const LIMIT: usize = 8 << 20;
    let with = |name: &str| Spec {
        stores: vec![StoreSpec::Memory(MemorySpec { limit: LIMIT, ..MemorySpec::default() })],
        ..spec([PolicySpec::new(name, vec![Quota::per_day(1)])])
    };
    let name = |number: usize| format!("p{number}");
    let (engine, clock) = engine(&with(&name(0)));
    let mut states = Vec::new();
    for number in 0..8 {
        for key in 0..20_000 {
            allowed(&engine, &name(number), &key.to_string(), 1).await;
        }
        states.push(Arc::downgrade(engine.plan().gate(&name(number)).unwrap().store()));
        clock.advance(Duration::from_secs(1));
        engine.swap(&with(&name(number + 1))).unwrap();
        let alive = states.iter().filter_map(std::sync::Weak::upgrade);
        let bytes: usize = alive.map(|state| state.in_process().unwrap().stats().bytes).sum();
        assert!(bytes <= LIMIT / 2, "{bytes} after {number}");
    }
    // The latest is the one that is most likely to return.
    engine.swap(&with(&name(7))).unwrap();
    assert_eq!(allowed(&engine, &name(7), "0", 1).await, 0);
}

#[tokio::test]
async fn a_configuration_that_cannot_be_changes_nothing() {
    let (engine, _) = engine(&spec([policy("api", 3)]));
    assert_eq!(allowed(&engine, "api", "k", 2).await, 2);
    let elsewhere = PolicySpec { store: "nowhere".to_owned(), ..policy("api", 9) };
    let error = engine.swap(&spec([elsewhere])).unwrap_err();
    assert!(error.to_string().contains("\"nowhere\" is not configured"), "{error}");
    assert_eq!(allowed(&engine, "api", "k", 9).await, 1);
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[tokio::test]
async fn a_restart_forgives_nothing() {
    let folder = Folder::new("a_restart_forgives_nothing");
    let snapshots = Snapshots::new(&folder.0).unwrap();
    let spec = spec([policy("api/v1:*", 3)]);
    let (before, _) = engine(&spec);
    assert_eq!(allowed(&before, "api/v1:*", "k", 2).await, 2);
    let report = snapshots.save(&before.plan()).unwrap();
    assert_eq!((report.files, report.keys), (1, 1));
    let mut restorer = snapshots.restorer(false);
    let after = Engine::with_clock(&spec, Some(clock()), &mut restorer).unwrap();
    assert_eq!(allowed(&after, "api/v1:*", "k", 9).await, 1);
    assert!(restorer.restored.iter().any(|line| line.contains("1 keys restored")), "{restorer:?}");
}

#[tokio::test]
async fn a_damaged_snapshot_stops_the_start_unless_results_otherwise() {
    let folder = Folder::new("a_damaged_snapshot");
    let snapshots = Snapshots::new(&folder.0).unwrap();
    let spec = spec([policy("api", 3)]);
    let (before, _) = engine(&spec);
    assert_eq!(allowed(&before, "api", "k", 3).await, 3);
    snapshots.save(&before.plan()).unwrap();
    let file = folder.0.join("api.log.1.snapshot");
    let good = fs::read(&file).unwrap();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        fs::write(&file, bad).unwrap();
        let error = Engine::new(&spec, &mut snapshots.restorer(false)).unwrap_err().to_string();
        assert!(error.contains("start_empty_if_damaged"), "byte {at}: {error}");
    }
    for end in 0..good.len() {
        fs::write(&file, &good[..end]).unwrap();
        assert!(Engine::new(&spec, &mut snapshots.restorer(false)).is_err(), "cut at {end}");
    }
    let mut restorer = snapshots.restorer(true);
    let after = Engine::with_clock(&spec, Some(clock()), &mut restorer).unwrap();
    assert_eq!(allowed(&after, "api", "k", 9).await, 3);
    assert!(folder.0.join("api.log.1.damaged").exists() && !file.exists());
}

// State that was made before a reload must follow the budget, or all of it together exceeds it.
#[tokio::test]
async fn shares_of_memory_follow_the_configuration() {
    const MIB: usize = 1 << 20;
    let with = |policies: &[&str], limit: usize| Spec {
        stores: vec![StoreSpec::Memory(MemorySpec { limit, ..MemorySpec::default() })],
        ..spec(policies.iter().map(|name| policy(name, 3)))
    };
    let shares = |engine: &Engine| -> Vec<usize> {
        let plan = engine.plan();
        let limiters = plan.stores().iter().filter_map(|(_, store)| store.in_process());
        limiters.map(|limiter| limiter.stats().memory_limit).collect()
    };
    let engine = Arc::new(engine(&with(&["one"], 64 * MIB)).0);
    assert_eq!(shares(&engine), [64 * MIB]);
    // `CL.THROTTLE` gets its share when it is used.
    engine.start_throttle().await.unwrap();
    engine.start_throttle().await.unwrap();
    assert_eq!(shares(&engine), [32 * MIB; 2]);
    assert_eq!(allowed(&engine, "one", "k", 2).await, 2);
    engine.swap(&with(&["one", "two", "three"], 64 * MIB)).unwrap();
    assert_eq!(shares(&engine), [16 * MIB; 4]);
    engine.swap(&with(&["one", "two", "three"], 256 * MIB)).unwrap();
    assert_eq!(shares(&engine), [64 * MIB; 4]);
    engine.swap(&with(&["one"], 256 * MIB)).unwrap();
    assert_eq!(shares(&engine), [128 * MIB; 2]);
    assert_eq!(allowed(&engine, "one", "k", 2).await, 1, "counts are kept on the way");
}

#[tokio::test]
async fn ten_thousand_policies_share_the_default_memory() {
    let names: Vec<String> = (0..10_000).map(|number| format!("p{number}")).collect();
    let spec = spec(names.iter().map(|name| policy(name, 3)));
    let (engine, _) = engine(&spec);
    assert_eq!(allowed(&engine, "p9999", "k", 5).await, 3);
    let plan = engine.plan();
    let limits = plan.stores().iter().filter_map(|(_, store)| store.in_process());
    let total: usize = limits.map(|limiter| limiter.stats().memory_limit).sum();
    assert!(total <= 256 << 20, "{total}");
}

// A table that was made for a large share cannot shrink at will: the sum must stay within the limit.
#[tokio::test]
async fn a_reload_that_does_not_fit_into_the_memory_is_refused() {
    let names: Vec<String> = (0..1000).map(|number| format!("p{number}")).collect();
    let with = |count: usize| Spec {
        stores: vec![StoreSpec::Memory(MemorySpec { limit: 16 << 20, ..MemorySpec::default() })],
        ..spec(names[..count].iter().map(|name| policy(name, 3)))
    };
    let (engine, _) = engine(&with(4));
    let error = engine.swap(&with(1000)).unwrap_err().to_string();
    assert!(error.contains("restart with this configuration"), "{error}");
    assert!(engine.plan().gate("p3").is_some() && engine.plan().gate("p4").is_none());
    engine.swap(&with(200)).unwrap();
    let plan = engine.plan();
    let limits = plan.stores().iter().filter_map(|(_, store)| store.in_process());
    let total: usize = limits.map(|limiter| limiter.stats().memory_limit).sum();
    assert!(total <= 16 << 20, "{total}");
}

#[test]
fn a_directory_of_snapshots_belongs_to_one_process_and_must_be_a_directory() {
    let folder = Folder::new("a_directory_of_snapshots");
    let first = Snapshots::new(&folder.0.join("state")).unwrap();
    let error = Snapshots::new(&folder.0.join("state")).unwrap_err();
    let id = std::process::id().to_string();
    assert!(error.contains("in use by another process") && error.contains(&id), "{error}");
    drop(first);
    Snapshots::new(&folder.0.join("state")).unwrap();
    let file = folder.0.join("file");
    fs::write(&file, "").unwrap();
    for path in [file.clone(), file.join("below")] {
        let error = Snapshots::new(&path).unwrap_err();
        assert!(error.contains("snapshot.path") && error.contains("a "), "{error}");
    }
    assert!(Snapshots::new(&file).unwrap_err().contains("is a file: use a directory"));
}

// A name that can be foreseen would let any user who can write there have another file overwritten.
#[tokio::test]
async fn snapshots_are_written_through_no_link_and_leave_nothing_behind() {
    let folder = Folder::new("snapshots_through_no_link");
    let (state, victim) = (folder.0.join("state"), folder.0.join("victim"));
    fs::create_dir_all(&state).unwrap();
    fs::write(&victim, "untouched").unwrap();
    for name in ["api.log.1.fresh", "api.log.1.snapshot", "api.log.1.snapshot.0.tmp"] {
        std::os::unix::fs::symlink(&victim, state.join(name)).unwrap();
    }
    let (engine, _) = engine(&spec([policy("api", 3)]));
    let snapshots = Snapshots::new(&state).unwrap();
    for _ in 0..3 {
        snapshots.save(&engine.plan()).unwrap();
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "untouched");
    let mut names: Vec<_> =
        fs::read_dir(&state).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["api.log.1.snapshot", "lock"]);
    let file = fs::symlink_metadata(state.join("api.log.1.snapshot")).unwrap();
    assert!(file.is_file());
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&file.permissions()) & 0o777, 0o600);
}

// What an operator says of a full table must not wait for a restart: that would empty it.
#[tokio::test]
async fn what_happens_when_memory_is_spent_follows_the_configuration() {
    let with = |on_full| Spec {
        stores: vec![StoreSpec::Memory(MemorySpec {
            limit: 4 << 20,
            on_full,
            ..MemorySpec::default()
        })],
        ..spec([policy("one", 3)])
    };
    let (engine, _) = engine(&with(OnFull::Overflow));
    let overflowed = || {
        let plan = engine.plan();
        let limiters = plan.stores().iter().filter_map(|(_, store)| store.in_process());
        limiters.map(|limiter| limiter.stats().overflowed).sum::<u64>()
    };
    let mut key = 0_u32;
    while overflowed() == 0 {
        assert_eq!(allowed(&engine, "one", &key.to_string(), 1).await, 1);
        key += 1;
    }
    engine.swap(&with(OnFull::Deny)).unwrap();
    let mut denied = 0;
    for new in key..key + 1000 {
        denied += 1 - allowed(&engine, "one", &new.to_string(), 1).await;
    }
    assert!(denied > 0, "none of a thousand new keys was denied");
    assert_eq!(allowed(&engine, "one", "0", 3).await, 2, "keys in the table stay");
}

// A sweep counts the keys on these servers that belong to no policy.
#[tokio::test]
async fn rejected_configuration_leaves_the_redis_servers_as_they_were() {
    let on = |prefix: &str, others: &[PolicySpec]| {
        let redis = RedisSpec {
            place: RedisPlace::Single("redis://127.0.0.1:1".to_owned()),
            prefix: prefix.to_owned(),
            ..RedisSpec::default()
        };
        let stores = vec![StoreSpec::Redis("shared".to_owned(), Box::new(redis))];
        let shared = PolicySpec { store: "shared".to_owned(), ..policy("api", 1) };
        Spec { stores, policies: [&[shared], others].concat(), ..Spec::default() }
    };
    let (engine, _) = engine(&on("old", &[]));
    let servers = || -> Vec<String> {
        engine.redis_stores().iter().map(|store| format!("{:?}", store.redis)).collect()
    };
    let store = || Arc::clone(&engine.plan().stores()[0].1);
    let (old, old_store) = (servers(), store());
    assert!(old.len() == 1 && old[0].contains("\"old\""), "{old:?}");

    let unknown = PolicySpec { store: "unknown".to_owned(), ..policy("other", 1) };
    engine.swap(&on("new", &[unknown])).unwrap_err();
    assert_eq!(servers(), old);
    engine.swap(&on("old", &[policy("other", 1)])).unwrap();
    assert_eq!(servers(), old);
    assert!(Arc::ptr_eq(&store(), &old_store), "its connections and its breaker continue");

    engine.swap(&on("new", &[])).unwrap();
    assert!(servers().len() == 1 && servers()[0].contains("\"new\""), "{:?}", servers());
    assert!(!Arc::ptr_eq(&store(), &old_store));
}
