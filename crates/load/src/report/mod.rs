//! What a run measured, for people and for programs.

mod page;
mod table;

use core::time::Duration;
use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;
use slidegate_sim::number::{share, to_float};

use crate::audit::{Audit, Fault, WrongWindow, whole_nanos};
use crate::plan::{Pace, Plan};
use crate::record::{Recorder, Step};
use crate::target::Target;

/// The most wrong windows in a report. All of them are counted.
const WINDOWS_MAX: usize = 100;
/// The percentiles of the plot.
const PLOTTED: [f64; 14] =
    [0.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 98.0, 99.0, 99.5, 99.9, 99.95, 99.99, 99.999];

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    /// Its time was over.
    Complete,
    /// It was stopped before.
    Interrupted,
    /// There were more requests than can be checked.
    Full,
}

/// What a run measured.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Where requests were sent.
    pub target: String,
    /// `open` or `closed`.
    pub pace: &'static str,
    /// How it ended.
    pub ending: Ending,
    /// Seconds from the start to the last answer.
    pub seconds: f64,
    /// Requests per second that were asked for, in an open loop.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requested_rate: Option<f64>,
    /// Decisions per second.
    pub achieved_rate: f64,
    /// Connections.
    pub connections: u16,
    /// How keys were drawn.
    pub keys: String,
    /// Requests with a decision, and without.
    pub requests: u64,
    /// Requests that were allowed.
    pub allowed: u64,
    /// Requests that were denied.
    pub denied: u64,
    /// Denied requests as a share of decisions.
    pub denied_share: f64,
    /// Requests without a decision.
    pub failed: u64,
    /// The same by kind, with the first of each.
    pub failures: BTreeMap<String, FailureCount>,
    /// Requests that were due and could not be sent before the end. The latencies leave them out.
    pub unsent: u64,
    /// Seconds from when a request was due to its answer.
    pub latency: Latencies,
    /// Seconds from sending a request to its answer.
    pub service_time: Latencies,
    /// Decisions that are surely wrong, if the limit is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wrong: Option<WrongReport>,
    #[serde(skip)]
    steps: Vec<Step>,
    #[serde(skip)]
    step_seconds: f64,
    #[serde(skip)]
    curves: [Vec<(f64, f64)>; 2],
}

/// Failures of one kind.
#[derive(Debug, Clone, Serialize)]
pub struct FailureCount {
    /// How many.
    pub count: u64,
    /// What happened the first time.
    pub first: String,
}

/// Latencies in seconds.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub struct Latencies {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: f64,
    /// 90 % are not above.
    pub p90: f64,
    /// 99 % are not above.
    pub p99: f64,
    /// 99.9 % are not above.
    pub p99_9: f64,
    /// 99.99 % are not above.
    pub p99_99: f64,
    /// The longest.
    pub max: f64,
}

/// Decisions that are surely wrong.
#[derive(Debug, Clone, Serialize)]
pub struct WrongReport {
    /// The limits.
    pub quotas: Vec<String>,
    /// Keys with requests.
    pub keys: u64,
    /// Windows in which more passed than the limit.
    pub windows_over: u64,
    /// Requests that were allowed in them beyond the limit.
    pub wrongly_allowed: u64,
    /// Windows in which a request was denied although fewer had passed than the limit.
    pub windows_under: u64,
    /// Requests that were denied in them.
    pub wrongly_denied: u64,
    /// The windows that are the furthest from their limit.
    pub windows: Vec<WrongWindow>,
}

impl Report {
    pub(crate) fn new(
        plan: &Plan,
        target: &Target,
        recorder: &Recorder,
        elapsed: Duration,
        unsent: u64,
        ending: Ending,
    ) -> Self {
        let decided = recorder.allowed + recorder.denied;
        let last = Duration::from_nanos(recorder.last_ns);
        // Until the last answer, but not less than the time in which requests were sent.
        let time = last.max(elapsed.min(plan.duration));
        let requested_rate = match plan.pace {
            Pace::Open(rate) => Some(rate),
            Pace::Closed => None,
        };
        let failure = |(kind, (count, first)): (&String, &(u64, String))| {
            (kind.clone(), FailureCount { count: *count, first: first.clone() })
        };
        Self {
            target: target.to_string(),
            pace: if requested_rate.is_some() { "open" } else { "closed" },
            ending,
            seconds: time.as_secs_f64(),
            requested_rate,
            achieved_rate: to_float(decided) / time.as_secs_f64().max(1e-9),
            connections: plan.connections,
            keys: plan.keys.to_string(),
            requests: decided + recorder.failed,
            allowed: recorder.allowed,
            denied: recorder.denied,
            denied_share: share(recorder.denied, decided),
            failed: recorder.failed,
            failures: recorder.failures.iter().map(failure).collect(),
            unsent,
            latency: Latencies::new(&recorder.latency),
            service_time: Latencies::new(&recorder.service),
            wrong: (!plan.quotas.is_empty()).then(|| WrongReport::new(plan, target, recorder)),
            steps: recorder.steps.clone(),
            step_seconds: to_float(recorder.step_ns) / 1e9,
            curves: [curve(&recorder.latency), curve(&recorder.service)],
        }
    }

    /// Returns `true` if a decision was surely wrong.
    pub fn has_wrong_decisions(&self) -> bool {
        self.wrong.as_ref().is_some_and(|wrong| wrong.windows_over + wrong.windows_under > 0)
    }
}

impl Latencies {
    fn new(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile: f64| to_float(histogram.value_at_quantile(quantile)) / 1e9;
        Self {
            mean: histogram.mean() / 1e9,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            p99_99: at(0.9999),
            max: to_float(histogram.max()) / 1e9,
        }
    }

    /// Returns the names and values that are shown.
    fn named(&self) -> [(&'static str, f64); 7] {
        [
            ("mean", self.mean),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99.9", self.p99_9),
            ("p99.99", self.p99_99),
            ("max", self.max),
        ]
    }
}

impl WrongReport {
    fn new(plan: &Plan, target: &Target, recorder: &Recorder) -> Self {
        let windows = plan.quotas.iter().map(slidegate::Quota::window);
        let longest = windows.max().unwrap_or_default();
        // A key that all requests share was there before.
        let audited_from =
            if target.has_keys() { Duration::ZERO } else { longest + plan.tolerance };
        let audit = Audit::new(
            &recorder.checked,
            &plan.quotas,
            whole_nanos(plan.tolerance),
            whole_nanos(audited_from),
        );
        let (windows_over, wrongly_allowed) = audit.count(Fault::Over);
        let (windows_under, wrongly_denied) = audit.count(Fault::Under);
        let keys = audit.keys;
        let mut windows = audit.windows;
        windows.sort_by_key(|window| core::cmp::Reverse(window.units.abs_diff(window.limit)));
        windows.truncate(WINDOWS_MAX);
        Self {
            quotas: plan.quotas.iter().map(ToString::to_string).collect(),
            keys,
            windows_over,
            wrongly_allowed,
            windows_under,
            wrongly_denied,
            windows,
        }
    }
}

fn curve(histogram: &Histogram<u64>) -> Vec<(f64, f64)> {
    let at = |percentile: f64| {
        (percentile, to_float(histogram.value_at_quantile(percentile / 100.0)) / 1e9)
    };
    // A percentile needs as many requests as it distinguishes.
    let is_known = |percentile: &f64| to_float(histogram.len()) * (100.0 - percentile) >= 100.0;
    PLOTTED.into_iter().filter(is_known).map(at).collect()
}
