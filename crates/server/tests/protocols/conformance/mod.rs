//! The conformance traces through the daemon's listeners, over real sockets. The clock is set in
//! this process: no build of the program has a switch for it.

mod api;
mod redis_protocol;

use std::sync::Arc;
use std::time::Duration;

use slidegate::ManualClock;
use slidegate_server::engine::Engine;
use slidegate_server::gates::NoRestore;
use slidegate_server::spec::{PolicySpec, Rollout, Spec};
use slidegate_testkit::{Mode, QuotaSpec, Subject, Trace, load_all, run};

/// An engine with a policy for every trace, by its name.
fn engine(traces: &[Trace]) -> (Arc<Engine>, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let spec = Spec { policies: traces.iter().map(policy).collect(), ..Spec::default() };
    let engine = Engine::with_clock(&spec, Some(clock.clone()), &mut NoRestore).unwrap();
    (Arc::new(engine), clock)
}

fn policy(trace: &Trace) -> PolicySpec {
    let policy = &trace.policy;
    let quotas = |specs: &[QuotaSpec]| slidegate_testkit::quotas(specs).unwrap();
    PolicySpec {
        algorithm: policy.limiter_algorithm().unwrap(),
        rollout: if policy.mode == Mode::Shadow { Rollout::Shadow } else { Rollout::Enforce },
        tiers: policy.tiers.iter().map(|(name, tier)| (name.clone(), quotas(tier))).collect(),
        ..PolicySpec::new(&trace.name, quotas(&policy.quotas))
    }
}

/// Returns the traces that the daemon can play: it stores time in milliseconds, and reports no wait for
/// requests that pass in shadow mode.
fn traces() -> Vec<Trace> {
    let mut traces = load_all().unwrap();
    traces.retain(|trace| trace.policy.tick_ms == 1 && trace.policy.mode != Mode::Shadow);
    assert!(traces.len() >= 100, "{}", traces.len());
    traces
}

/// Plays a trace; how many steps the subject could not do.
fn play<S: Subject>(trace: &Trace, subject: &mut S) -> usize {
    run(trace, subject).unwrap_or_else(|mismatch| panic!("{}: {mismatch}", trace.name)).skipped
}
