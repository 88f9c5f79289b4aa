//! What is measured while requests are sent.

use core::time::Duration;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::audit::{Checked, Outcome, whole_nanos};
use crate::plan::{CHECKED_MAX, Plan};
use crate::target::{Failure, Verdict};

/// The latencies that a histogram distinguishes: from a microsecond to an hour. Longer ones count as an hour.
const LATENCY_NS: (u64, u64) = (1_000, 3_600_000_000_000);
/// The most kinds of failures.
const KINDS_MAX: usize = 20;
/// The most points of a plot over time.
const STEPS_MAX: u64 = 200;
/// The shortest time between two of them.
const STEP_MIN_NS: u64 = 100_000_000;

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    /// Time since the start.
    pub elapsed: Duration,
    /// Requests that were answered.
    pub answered: u64,
    /// Those that were allowed.
    pub allowed: u64,
    /// Those that were denied.
    pub denied: u64,
    /// Requests without a decision.
    pub failed: u64,
    /// The 99th percentile of latencies so far.
    pub p99: Duration,
}

/// A request that was answered or given up, with times in nanoseconds since the start.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) key: u32,
    /// When it was due.
    pub(crate) due_ns: u64,
    pub(crate) sent_ns: u64,
    pub(crate) answered_ns: u64,
    pub(crate) result: Result<Verdict, Failure>,
}

/// A part of the run.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Step {
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    /// Percentiles and maximum of the latencies in this step.
    pub(crate) p50_ns: u64,
    pub(crate) p99_ns: u64,
    pub(crate) max_ns: u64,
}

/// Everything that was measured.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// From the time at which a request was due to its answer.
    pub(crate) latency: Histogram<u64>,
    /// From sending a request to its answer.
    pub(crate) service: Histogram<u64>,
    pub(crate) allowed: u64,
    pub(crate) denied: u64,
    pub(crate) failed: u64,
    /// How many, and the first of them, by kind.
    pub(crate) failures: BTreeMap<String, (u64, String)>,
    pub(crate) last_ns: u64,
    pub(crate) checked: Vec<Checked>,
    pub(crate) step_ns: u64,
    pub(crate) steps: Vec<Step>,
    in_step: Histogram<u64>,
    is_checking: bool,
}

impl Recorder {
    pub(crate) fn new(plan: &Plan) -> Result<Self, hdrhistogram::CreationError> {
        let histogram = |digits| Histogram::new_with_bounds(LATENCY_NS.0, LATENCY_NS.1, digits);
        Ok(Self {
            latency: histogram(3)?,
            service: histogram(3)?,
            in_step: histogram(2)?,
            allowed: 0,
            denied: 0,
            failed: 0,
            failures: BTreeMap::new(),
            last_ns: 0,
            checked: Vec::new(),
            step_ns: (whole_nanos(plan.duration) / STEPS_MAX).max(STEP_MIN_NS),
            steps: vec![Step::default()],
            is_checking: !plan.quotas.is_empty(),
        })
    }

    /// Returns `true` if there is no room for another request whose decision is checked.
    pub(crate) fn is_full(&self) -> bool {
        self.checked.len() >= CHECKED_MAX
    }

    pub(crate) fn record(&mut self, exchange: Exchange) {
        let Exchange { key, due_ns, sent_ns, answered_ns, result } = exchange;
        let latency_ns = answered_ns.saturating_sub(due_ns);
        self.latency.saturating_record(latency_ns);
        self.service.saturating_record(answered_ns.saturating_sub(sent_ns));
        self.last_ns = self.last_ns.max(answered_ns);
        self.advance(answered_ns);
        self.in_step.saturating_record(latency_ns);
        let step = self.steps.last_mut();
        let (outcome, total, in_step) = match &result {
            Ok(Verdict::Allowed) => {
                (Outcome::Allowed, &mut self.allowed, step.map(|step| &mut step.allowed))
            }
            Ok(Verdict::Denied) => {
                (Outcome::Denied, &mut self.denied, step.map(|step| &mut step.denied))
            }
            Err(_) => (Outcome::Unknown, &mut self.failed, step.map(|step| &mut step.failed)),
        };
        *total += 1;
        if let Some(count) = in_step {
            *count += 1;
        }
        if let Err(failure) = result {
            self.count_failure(failure);
        }
        if self.is_checking {
            self.checked.push(Checked { key, outcome, sent_ns, answered_ns });
        }
    }

    fn count_failure(&mut self, failure: Failure) {
        let is_new = !self.failures.contains_key(&failure.kind);
        let kind = if is_new && self.failures.len() >= KINDS_MAX {
            "other".to_owned()
        } else {
            failure.kind
        };
        self.failures.entry(kind).or_insert((0, failure.detail)).0 += 1;
    }

    /// Closes the steps that ended before `now_ns`.
    fn advance(&mut self, now_ns: u64) {
        let place = usize::try_from(now_ns / self.step_ns).unwrap_or(usize::MAX);
        // A run ends within its deadline after the last step, which is short compared to the run or a second.
        while self.steps.len() <= place && self.steps.len() < 100_000 {
            self.close_step();
            self.steps.push(Step::default());
        }
    }

    pub(crate) fn close_step(&mut self) {
        if let Some(step) = self.steps.last_mut()
            && !self.in_step.is_empty()
        {
            step.p50_ns = self.in_step.value_at_quantile(0.5);
            step.p99_ns = self.in_step.value_at_quantile(0.99);
            step.max_ns = self.in_step.max();
        }
        self.in_step.reset();
    }

    pub(crate) fn progress(&self, elapsed: Duration) -> Progress {
        Progress {
            elapsed,
            answered: self.allowed + self.denied,
            allowed: self.allowed,
            denied: self.denied,
            failed: self.failed,
            p99: Duration::from_nanos(self.latency.value_at_quantile(0.99)),
        }
    }
}
