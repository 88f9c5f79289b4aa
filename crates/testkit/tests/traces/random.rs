//! Thousands of random traces for every algorithm, compared between memory and the models.
//!
//! A failure prints the shortest trace that shows it. `compare` with its seed reproduces it.

use slidegate_testkit::{
    Algorithm, MemorySubject, Step, SubjectError, Trace, compare, compare_with, random_trace,
};

const SEEDS: u64 = 3000;

/// Returns a few failures, because they mostly have one cause.
fn first_few(failures: impl Iterator<Item = String>) -> String {
    failures.take(5).collect::<Vec<_>>().join("\n")
}

fn failures(algorithm: Algorithm) -> String {
    first_few((0..SEEDS).filter_map(|seed| compare(seed, algorithm).err()))
}

#[test]
fn memory_matches_the_log_model() {
    assert_eq!(failures(Algorithm::Log), "");
}

#[test]
fn memory_matches_the_counter_model() {
    assert_eq!(failures(Algorithm::Counter), "");
}

#[test]
fn memory_matches_the_segments_model() {
    assert_eq!(failures(Algorithm::Segments), "");
}

#[test]
fn memory_matches_the_gcra_model() {
    assert_eq!(failures(Algorithm::Gcra), "");
}

#[test]
fn memory_matches_the_fixed_window_model() {
    assert_eq!(failures(Algorithm::Fixed), "");
}

/// A byte cap that is never reached must change nothing.
#[test]
fn a_log_below_its_cap_matches_the_log() {
    let capped = |seed| {
        let mut trace = random_trace(seed, Algorithm::Log);
        trace.policy.bytes_max = Some(65_536);
        compare_with(&trace, MemorySubject::new).err()
    };
    assert_eq!(first_few((0..SEEDS / 3).filter_map(capped)), "");
}

/// Returns traces that are short enough for a task before every step, without steps that it would
/// disturb.
fn with_chores(
    seeds: u64,
    make: impl Fn(&Trace) -> Result<MemorySubject, SubjectError> + Copy,
    disturbs: impl Fn(&Step, u64) -> bool + Copy,
) -> String {
    let failures = Algorithm::ALL.into_iter().flat_map(|algorithm| {
        (0..seeds).filter_map(move |seed| {
            let mut trace = random_trace(seed, algorithm);
            trace.steps.truncate(150);
            let mut latest_ms = 0;
            trace.steps.retain(|step| {
                latest_ms = latest_ms.max(step.at_ms);
                !disturbs(step, latest_ms)
            });
            compare_with(&trace, make).err()
        })
    });
    first_few(failures)
}

/// Removing keys that cannot affect a decision must change none.
#[test]
fn a_sweep_changes_no_decision() {
    assert_eq!(with_chores(800, MemorySubject::sweeping, |_, _| false), "");
}

/// A limiter that is saved and restored before every step decides like one that ran continuously.
/// Only receipts and the record of a clock that went back are lost.
#[test]
fn a_restart_changes_no_decision() {
    let disturbs = |step: &Step, latest_ms| step.of.is_some() || step.at_ms < latest_ms;
    assert_eq!(with_chores(200, MemorySubject::restarting, disturbs), "");
}
