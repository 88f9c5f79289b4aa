//! Thousands of made-up traces for every algorithm, over memory and the naive models side by side.
//!
//! A failure prints the shortest trace that shows it; `compare` with its seed brings it back.

use slidegate_testkit::{
    Algorithm, MemorySubject, Refusal, Step, Trace, compare, compare_with, random_trace,
};

const SEEDS: u64 = 3000;

/// A few failures are enough: they mostly have one cause.
fn first_few(failures: impl Iterator<Item = String>) -> String {
    failures.take(5).collect::<Vec<_>>().join("\n")
}

fn failures(algorithm: Algorithm) -> String {
    first_few((0..SEEDS).filter_map(|seed| compare(seed, algorithm).err()))
}

#[test]
fn memory_is_the_log() {
    assert_eq!(failures(Algorithm::Log), "");
}

#[test]
fn memory_is_the_counter() {
    assert_eq!(failures(Algorithm::Counter), "");
}

#[test]
fn memory_is_the_segments() {
    assert_eq!(failures(Algorithm::Segments), "");
}

#[test]
fn memory_is_the_gcra() {
    assert_eq!(failures(Algorithm::Gcra), "");
}

#[test]
fn memory_is_the_fixed_window() {
    assert_eq!(failures(Algorithm::Fixed), "");
}

/// A byte cap that is never reached must change nothing.
#[test]
fn a_log_below_its_cap_is_the_log() {
    let capped = |seed| {
        let mut trace = random_trace(seed, Algorithm::Log);
        trace.policy.bytes_max = Some(65_536);
        compare_with(&trace, MemorySubject::new).err()
    };
    assert_eq!(first_few((0..SEEDS / 3).filter_map(capped)), "");
}

/// Traces short enough for a chore before every step, without the steps that it would disturb.
fn with_chores(
    seeds: u64,
    make: impl Fn(&Trace) -> Result<MemorySubject, Refusal> + Copy,
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

/// Dropping what can no longer change a decision must change none.
#[test]
fn nobody_notices_a_sweep() {
    assert_eq!(with_chores(800, MemorySubject::sweeping, |_, _| false), "");
}

/// A limiter that is saved and restored before every step decides as one that ran through. Only
/// receipts do not outlive it, nor what it knows about a clock gone back.
#[test]
fn nobody_notices_a_restart() {
    let disturbs = |step: &Step, latest_ms| step.of.is_some() || step.at_ms < latest_ms;
    assert_eq!(with_chores(200, MemorySubject::restarting, disturbs), "");
}
