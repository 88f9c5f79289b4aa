//! Every trace of the `conformance` directory, on the models and in memory.

use std::collections::BTreeSet;

use slidegate_testkit::{Algorithm, DefinedSubject, MemorySubject, Report, Trace, load_all, run};

/// Returns all failures, because one cause often shows in several traces.
fn failures(traces: &[Trace], play: impl Fn(&Trace) -> Result<Report, String>) -> Vec<String> {
    let mut failures = Vec::new();
    for trace in traces {
        match play(trace) {
            Ok(report) if report.skipped == 0 => {}
            Ok(report) => failures.push(format!("{} was cut short: {report:?}", trace.name)),
            Err(failure) => failures.push(failure),
        }
    }
    failures
}

#[test]
fn the_models_pass_every_trace() {
    let failures = failures(&load_all().unwrap(), |trace| {
        run(trace, &mut DefinedSubject::new(trace)).map_err(|mismatch| mismatch.to_string())
    });
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn memory_passes_every_trace() {
    let failures = failures(&load_all().unwrap(), |trace| {
        let mut subject = MemorySubject::new(trace).map_err(|refusal| refusal.to_string())?;
        run(trace, &mut subject).map_err(|mismatch| mismatch.to_string())
    });
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_traces_cover_every_algorithm() {
    let traces = load_all().unwrap();
    assert!(traces.len() >= 60, "there are only {} traces", traces.len());
    let seen: BTreeSet<_> = traces.iter().map(|trace| trace.policy.algorithm).collect();
    assert_eq!(seen, BTreeSet::from(Algorithm::ALL));
    for algorithm in Algorithm::ALL {
        let count = traces.iter().filter(|trace| trace.policy.algorithm == algorithm).count();
        assert!(count >= 6, "{algorithm:?} has only {count} traces");
    }
    assert!(traces.iter().any(|trace| trace.policy.bytes_max.is_some()));
}
