//! The trace format of the folder `conformance`.

use serde::Deserialize;
use slidegate::Quota;

use super::record::{Extra, Record};

/// The requests of a trace. What the decisions must be does not matter here.
#[derive(Debug, Deserialize)]
pub(crate) struct TraceFile {
    policy: TracePolicy,
    #[serde(default)]
    start_ms: u64,
    steps: Vec<TraceStep>,
}

#[derive(Debug, Deserialize)]
struct TracePolicy {
    quotas: Vec<TraceQuota>,
}

#[derive(Debug, Deserialize)]
struct TraceQuota {
    limit: u64,
    window_ms: u64,
}

#[derive(Debug, Deserialize)]
struct TraceStep {
    at_ms: u64,
    op: String,
    #[serde(default = "k")]
    key: String,
    #[serde(default = "one")]
    cost: u64,
    #[serde(default = "one")]
    repeat: u64,
    #[serde(default)]
    every_ms: u64,
}

fn k() -> String {
    "k".into()
}

fn one() -> u64 {
    1
}

/// A trace, and how far it has been read.
#[derive(Debug)]
pub(crate) struct TraceReader {
    trace: TraceFile,
    step: usize,
    repetition: u64,
}

/// What comes next in a trace.
#[expect(clippy::large_enum_variant, reason = "it is matched immediately, never stored")]
pub(crate) enum TraceItem<'a> {
    Request(Record<'a>),
    /// A step that is not a request, such as a refund.
    Other,
}

impl TraceReader {
    /// Parses a trace. Returns `None` if the text is not one.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let trace: TraceFile = serde_json::from_slice(text).ok()?;
        Some(Self { trace, step: 0, repetition: 0 })
    }

    /// The quotas of the trace's policy.
    pub(crate) fn quotas(&self) -> Vec<Quota> {
        let quota = |quota: &TraceQuota| {
            Quota::new(quota.limit, core::time::Duration::from_millis(quota.window_ms)).ok()
        };
        self.trace.policy.quotas.iter().filter_map(quota).collect()
    }

    /// The number of the current step, from 1.
    pub(crate) fn step(&self) -> u64 {
        self.step as u64 + 1
    }

    pub(crate) fn next(&mut self) -> Option<TraceItem<'_>> {
        let step = self.trace.steps.get(self.step)?;
        let past = self.repetition.saturating_mul(step.every_ms);
        let at_ms = self.trace.start_ms.saturating_add(step.at_ms).saturating_add(past);
        self.repetition += 1;
        if self.repetition >= step.repeat || !is_request(&step.op) {
            self.repetition = 0;
            self.step += 1;
        }
        if !is_request(&step.op) {
            return Some(TraceItem::Other);
        }
        let mut record = Record::at(at_ms);
        record.cost = step.cost;
        record.extra = Extra::Key(&step.key);
        Some(TraceItem::Request(record))
    }
}

fn is_request(op: &str) -> bool {
    matches!(op, "check" | "reserve")
}
