//! Where a store and a trace disagree.

use core::fmt;

use crate::trace::{Op, Step, Trace};

/// The first step of a trace that did not come out as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mismatch {
    /// The name of the trace.
    pub trace: String,
    /// The number of the step, the first being 1.
    pub step: usize,
    /// The step in words.
    pub what: String,
    /// What was compared.
    pub field: &'static str,
    /// What the trace says.
    pub expected: String,
    /// What the store did.
    pub got: String,
}

impl Mismatch {
    pub(crate) fn new(
        trace: &Trace,
        index: usize,
        field: &'static str,
        expected: impl fmt::Debug,
        got: impl fmt::Debug,
    ) -> Self {
        Self {
            trace: trace.name.clone(),
            step: index + 1,
            what: trace.steps.get(index).map(describe).unwrap_or_default(),
            field,
            expected: format!("{expected:?}"),
            got: format!("{got:?}"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trace, step, what, field, expected, got } = self;
        write!(f, "trace {trace}, step {step} ({what}): {field}: expected {expected}, got {got}")
    }
}

impl core::error::Error for Mismatch {}

fn describe(step: &Step) -> String {
    let Step { at_ms, op, key, cost, .. } = step;
    let what = match (op, &step.of, step.actual) {
        (Op::Settle, Some(of), Some(actual)) => format!("settle {of} for {actual}"),
        (Op::Refund, Some(of), _) => format!("refund {of}"),
        _ if op.is_judging() => format!("{op:?} {key} for {cost}").to_lowercase(),
        _ => format!("{op:?} {key}").to_lowercase(),
    };
    let tier = step.tier.as_ref().map(|tier| format!(" in tier {tier}")).unwrap_or_default();
    let times = if step.repeat == 1 { String::new() } else { format!(" {} times", step.repeat) };
    format!("{what}{tier}{times} at {at_ms} ms")
}
