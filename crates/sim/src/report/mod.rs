//! What a replay found out, for people and for programs.

mod config;
mod page;
mod table;
mod window;

use serde::Serialize;
use slidegate::Quota;

pub use self::config::{
    Comparison, ConfigReport, FileReport, RuleDecision, RuleReport, RuleTally, write_config_table,
};
pub use self::page::{config_to_html, to_html};
pub use self::table::{grouped, percent, write_columns, write_table};
pub use self::window::window_to_svg;
use crate::advice::Advice;
use crate::number::{share, to_float};
use crate::read::{ReadCounts, format_time};
use crate::replay::{HitKey, LimiterOutcome, Outcome, SingleRequest, Timeline};

/// The outcome of a replay.
#[derive(Debug, Serialize)]
pub struct Report {
    /// Requests that were replayed.
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Whether numbers of keys are estimates, because there are more than a million.
    pub keys_estimated: bool,
    /// The time of the first request.
    pub from: String,
    /// The time of the last request.
    pub until: String,
    /// Where the requests come from.
    pub input: String,
    /// What requests are counted by.
    pub key: String,
    /// The limits.
    pub quotas: Vec<String>,
    /// The first of them, to draw its window.
    #[serde(skip)]
    pub first_quota: Option<Quota>,
    /// What was read, and what could not be.
    #[serde(flatten)]
    pub counts: ReadCounts,
    /// Each algorithm under these limits.
    pub algorithms: Vec<AlgorithmReport>,
    /// The first algorithm under other limits.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub what_if: Vec<AlgorithmReport>,
    /// The smallest limits that reach the goals.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub advice: Vec<Advice>,
    /// Requests and denials over time.
    #[serde(skip)]
    pub timeline: Timeline,
    /// Each request, if there are few.
    #[serde(skip)]
    pub singles: Vec<SingleRequest>,
}

/// What came of one algorithm.
#[derive(Debug, Clone, Serialize)]
pub struct AlgorithmReport {
    /// The algorithm with its parameter.
    pub name: String,
    /// The limits.
    pub quotas: Vec<String>,
    /// Requests that it allowed.
    pub allowed: u64,
    /// Requests that it denied.
    pub denied: u64,
    /// Denied requests as a share of all.
    pub denied_share: f64,
    /// Keys that it denied at least once.
    pub keys_denied: u64,
    /// Requests that it allowed although its last window then contained more than the limit.
    pub wrongly_allowed: u64,
    /// Requests that it denied although its last window had room.
    pub wrongly_denied: u64,
    /// Wrongly decided requests as a share of all.
    pub wrong_share: f64,
    /// Requests that it allowed and an exact limiter with its own history denied.
    pub allowed_unlike_exact: u64,
    /// Requests that it denied and an exact limiter with its own history allowed.
    pub denied_unlike_exact: u64,
    /// The most units by which a window exceeded its limit.
    pub worst_excess: u64,
    /// The key of that window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_key: Option<String>,
    /// The end of that window.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worst_at: Option<String>,
    /// Mean difference between the units that it counted and those that it had admitted in the last window,
    /// as a share of the latter.
    pub mean_rate_error: f64,
    /// The most bytes that the limiter took.
    pub bytes: usize,
    /// Bytes per key at that time, without the empty table.
    pub bytes_per_key: f64,
    /// Requests that were decided by an estimate because memory was full.
    pub estimated: u64,
    /// Nanoseconds of processor time per decision, measured.
    pub nanos_per_decision: f64,
    /// The keys with the most denials.
    pub hits: Vec<HitKey>,
    /// The hash of the key of the worst window.
    #[serde(skip)]
    pub worst_fingerprint: Option<u64>,
    /// Times and units of the latest admissions in that window.
    #[serde(skip)]
    pub worst_admitted: Vec<(u64, u64)>,
}

/// What was simulated, in words.
#[derive(Debug, Clone)]
pub struct Subject {
    /// Where the requests come from.
    pub input: String,
    /// What they are counted by.
    pub key: String,
    /// The limits.
    pub quotas: Vec<Quota>,
}

impl Report {
    /// Describes an outcome whose first limiters, `algorithms` of them, have the limits of the subject.
    pub fn new(
        outcome: Outcome,
        counts: ReadCounts,
        subject: &Subject,
        algorithms: usize,
        hits: usize,
    ) -> Self {
        let requests = outcome.requests;
        let mut all: Vec<AlgorithmReport> = outcome
            .limiters
            .iter()
            .map(|limiter| AlgorithmReport::new(limiter, requests, hits))
            .collect();
        let what_if = all.split_off(algorithms.min(all.len()));
        Self {
            requests,
            keys: outcome.keys,
            keys_estimated: !outcome.keys_are_exact,
            from: format_time(outcome.first_ms),
            until: format_time(outcome.last_ms),
            input: subject.input.clone(),
            key: subject.key.clone(),
            quotas: texts(&subject.quotas),
            first_quota: subject.quotas.first().copied(),
            counts,
            algorithms: all,
            what_if,
            advice: Vec::new(),
            timeline: outcome.timeline,
            singles: outcome.singles,
        }
    }

    /// Returns the requests per second over the whole time.
    pub fn rate(&self) -> f64 {
        let steps = self.timeline.requests().len() as u64 * self.timeline.step_ms();
        to_float(self.requests) * 1000.0 / to_float(steps.max(1))
    }
}

impl AlgorithmReport {
    fn new(limiter: &LimiterOutcome, requests: u64, hits: usize) -> Self {
        let wrong = limiter.wrongly_allowed + limiter.wrongly_denied;
        let worst = limiter.worst_window.as_ref();
        Self {
            name: limiter.algorithm.to_string(),
            quotas: texts(&limiter.quotas),
            allowed: limiter.allowed,
            denied: limiter.denied,
            denied_share: share(limiter.denied, requests),
            keys_denied: limiter.keys_denied,
            wrongly_allowed: limiter.wrongly_allowed,
            wrongly_denied: limiter.wrongly_denied,
            wrong_share: share(wrong, requests),
            allowed_unlike_exact: limiter.allowed_unlike_exact,
            denied_unlike_exact: limiter.denied_unlike_exact,
            worst_excess: limiter.worst_excess,
            worst_key: worst.map(|(key, _)| key.to_string()),
            worst_at: worst.map(|(_, at_ms)| format_time(*at_ms)),
            mean_rate_error: limiter.mean_rate_error,
            bytes: limiter.bytes,
            bytes_per_key: limiter.bytes_per_key,
            estimated: limiter.overflowed,
            nanos_per_decision: limiter.nanos_per_decision,
            hits: limiter.hits.iter().take(hits).cloned().collect(),
            worst_fingerprint: limiter.worst_fingerprint,
            worst_admitted: limiter.worst_admitted.clone(),
        }
    }
}

fn texts(quotas: &[Quota]) -> Vec<String> {
    quotas.iter().map(Quota::to_string).collect()
}
