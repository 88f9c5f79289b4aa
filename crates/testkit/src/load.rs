//! Reads the traces of the `conformance` directory.

use core::fmt;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::policy::Mode;
use crate::subject::Capability;
use crate::trace::{Expect, Op, Step, Trace};

/// The error of a trace that cannot be read or is inconsistent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// The file, or the name of the trace.
    pub what: String,
    /// The reason.
    pub why: String,
}

/// Returns all traces, ordered by name.
pub fn load_all() -> Result<Vec<Trace>, LoadError> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance");
    let refuse = |error: std::io::Error| fault("conformance", error.to_string());
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(refuse)? {
        paths.push(entry.map_err(refuse)?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort_unstable();
    paths.iter().map(|path| load(path)).collect()
}

/// Reads one trace and checks that it is consistent.
pub fn parse(text: &str) -> Result<Trace, LoadError> {
    let trace: Trace =
        serde_json::from_str(text).map_err(|error| fault("trace", error.to_string()))?;
    match trace_fault(&trace) {
        Some(why) => Err(fault(&trace.name, why)),
        None => Ok(trace),
    }
}

fn load(path: &Path) -> Result<Trace, LoadError> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let text = std::fs::read_to_string(path).map_err(|error| fault(&name, error.to_string()))?;
    let trace = parse(&text).map_err(|error| LoadError { what: name.to_string(), ..error })?;
    if trace.name == name { Ok(trace) } else { Err(fault(&name, "it calls itself otherwise")) }
}

fn fault(what: &str, why: impl Into<String>) -> LoadError {
    LoadError { what: what.into(), why: why.into() }
}

fn trace_fault(trace: &Trace) -> Option<String> {
    if trace.name.is_empty() || !trace.why.ends_with('.') || trace.steps.is_empty() {
        return Some("it needs a name, a sentence that says why, and steps".into());
    }
    let declared: BTreeSet<_> = trace.requires.iter().copied().collect();
    let needed = needs(trace);
    if declared != needed {
        return Some(format!("it requires {needed:?} but says {declared:?}"));
    }
    let mut receipts = BTreeSet::new();
    let steps = trace.steps.iter().enumerate();
    let mut faults = steps.filter_map(|(index, step)| {
        let why = step_fault(trace, step, &mut receipts)?;
        Some(format!("step {}: {why}", index + 1))
    });
    trace.policy.fault().or_else(|| faults.next())
}

/// Returns everything that a store must support for a trace.
fn needs(trace: &Trace) -> BTreeSet<Capability> {
    let policy = &trace.policy;
    let mut needed = BTreeSet::new();
    let mut need = |capability, needs: bool| {
        if needs {
            needed.insert(capability);
        }
    };
    need(Capability::Shadow, policy.mode == Mode::Shadow);
    need(Capability::BytesMax, policy.bytes_max.is_some());
    need(Capability::Tick, policy.tick_ms != 1);
    need(Capability::Tiers, !policy.tiers.is_empty());
    let mut latest = 0;
    for step in &trace.steps {
        need(Capability::ClockBack, step.at_ms < latest);
        let last_turn = step.repeat.saturating_sub(1).saturating_mul(step.every_ms);
        latest = latest.max(step.at_ms.saturating_add(last_turn));
        match step.op {
            Op::Check | Op::Clock => {}
            Op::CheckAtMost => need(Capability::AtMost, true),
            Op::Charge => need(Capability::Charge, true),
            Op::Block | Op::Unblock => need(Capability::Block, true),
            Op::Peek => need(Capability::Peek, true),
            Op::Refund => need(Capability::Refund, true),
            Op::Forgive => need(Capability::Forgive, true),
            Op::Reserve | Op::Settle => need(Capability::Settle, true),
            Op::Reset => need(Capability::Reset, true),
            Op::Usage => need(Capability::Usage, true),
            Op::History => need(Capability::History, true),
        }
    }
    needed
}

fn step_fault(trace: &Trace, step: &Step, receipts: &mut BTreeSet<String>) -> Option<String> {
    if step.cost == 0 || step.repeat == 0 {
        return Some("`cost` and `repeat` are never zero".into());
    }
    if step.tier.as_ref().is_some_and(|tier| !trace.policy.tiers.contains_key(tier)) {
        return Some("there is no such tier".into());
    }
    if step.tier.is_some() && step.op != Op::Check {
        return Some("`tier` belongs to a check".into());
    }
    if (step.op == Op::Block) != step.for_ms.is_some_and(|time| time > 0) {
        return Some("`for_ms` belongs to a block and is not zero".into());
    }
    let takes = matches!(step.op, Op::Check | Op::Reserve | Op::CheckAtMost);
    if let Some(label) = &step.keep_as
        && (!takes || step.repeat != 1 || !receipts.insert(label.clone()))
    {
        return Some("`as` belongs to a single check and is used once".into());
    }
    let consumes = matches!(step.op, Op::Refund | Op::Settle);
    if consumes != step.of.is_some() || (step.op == Op::Settle) != step.actual.is_some() {
        return Some("`of` belongs to refund and settle, `actual` to settle".into());
    }
    if let Some(label) = &step.of
        && !receipts.remove(label)
    {
        return Some("there is no such receipt, or it was consumed".into());
    }
    expect_fault(step)
}

fn expect_fault(step: &Step) -> Option<String> {
    let Expect { allowed, allowed_count, shadow_denied, receipt, .. } = step.expect;
    let Expect { remaining, retry_after_ms, reset_after_ms, units, found, used, history, .. } =
        &step.expect;
    let expects_decision = allowed.is_some()
        || allowed_count.is_some()
        || shadow_denied.is_some()
        || remaining.is_some()
        || retry_after_ms.is_some()
        || reset_after_ms.is_some();
    let misplaced = [
        expects_decision && !step.op.returns_decision(),
        receipt.is_some() && !matches!(step.op, Op::Check | Op::Reserve | Op::CheckAtMost),
        units.is_some()
            && !matches!(
                step.op,
                Op::Refund | Op::Forgive | Op::Settle | Op::CheckAtMost | Op::Charge
            ),
        found.is_some() && !matches!(step.op, Op::Reset | Op::Unblock),
        used.is_some() && step.op != Op::Usage,
        history.is_some() && step.op != Op::History,
    ];
    misplaced.contains(&true).then(|| "it expects what this operation does not answer".into())
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)
    }
}

impl core::error::Error for LoadError {}

#[cfg(test)]
mod tests;
