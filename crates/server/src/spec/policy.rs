//! A policy as configured.

use core::time::Duration;
use std::collections::BTreeMap;

use slidegate::{Algorithm, FailureMode, Quota};
use slidegate_gate::Rollout;
use slidegate_http::QuotaUnit;

use crate::config::table::{Reader, given, section, words};
use crate::config::yaml::Node;

section! {
    /// Named quotas and everything that is configured about them.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PolicySpec, POLICY = "a policy" {
        /// What callers, rules, headers and metrics call it.
        name: String = Leaf(&NAME), required, example "api";
        /// One to eight; a request takes from all of them or from none.
        quotas: Vec<Quota> = QUOTAS, required, example "[10/second, {limit: 1000, window: 1h}]";
        /// How units are counted; `log` is exact.
        algorithm: Algorithm = ALGORITHM, default "log", example "{segments: 60}";
        /// Whether a denial is enforced, is only reported, or nothing is checked at all.
        rollout("mode"): Rollout = Choice(Rollout::WORDS), default "enforce", example "shadow";
        /// For how many of a hundred keys it is enforced; the others are in shadow.
        enforce_percent: u8 = Whole(0, 100), default "100", example "10";
        /// Quotas that might replace these: checked alongside and reported, never enforced.
        key candidate = Section(&CANDIDATE), absent "none", example "{quotas: [50/minute]}";
        /// Other quotas for some keys, by names of your choice. With `log` as many as `quotas` or
        /// fewer, otherwise as many.
        tiers: BTreeMap<String, Vec<Quota>> = Named(&NAME, &QUOTAS, 64), default "{}",
            example "{gold: [1000/minute]}";
        /// Where its counts live: `memory`, or a name under `stores`.
        store: String = Leaf(&NAME), default "memory", example "shared";
        /// What to answer when the store fails; `local` decides in this process.
        failure_mode: FailureMode = Choice(FailureMode::WORDS), default "allow", example "local";
        /// Whether keys are secrets, such as API tokens, that no log and no server may see.
        secret_keys: bool = Flag, default "false", example "true";
        /// What a unit is, for clients: `qu` in `RateLimit-Policy`. `requests` is not written.
        quota_unit: QuotaUnit = Leaf(&QUOTA_UNIT), default "requests", example "tokens";
        /// Whether the limit is meant to hold over all nodes. In `memory` it cannot, which is
        /// reported as a warning.
        global: bool = Flag, default "false", example "true";
        /// Quotas that might replace these.
        let candidate: Option<CandidateSpec> = candidate, else None;
        /// What matters only in a shared store.
        flatten shared: SharedSpec, SHARED;
    }
}

section! {
    /// Settings of a policy in a shared store.
    #[derive(Debug, Clone, PartialEq)]
    pub struct SharedSpec, SHARED = "a shared policy" {
        /// Nodes among which the limit is divided while the store fails, with
        /// `failure_mode: local`.
        nodes: u64 = Whole(1, 1_000_000), default "1", example "4";
        /// The share of every limit that is used, in a shared store.
        guard_band: Option<f64> = Decimal(0.001, 1.0), absent "the whole limit is used",
            example "0.95";
        /// Keys whose denials by a shared store are remembered here; 0 for none.
        deny_cache: usize = Whole(0, 1 << 24), default "10000", example "0";
        /// For how long units of hot keys are taken from a shared store in one call. With `log`,
        /// `log_capped` and `gcra`.
        leases: Option<Duration> = Time(MILLISECOND, SECOND), absent "no leases", example "5ms";
    }
}

section! {
    /// Quotas that might replace those of a policy.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CandidateSpec, CANDIDATE = "a candidate" {
        /// One to eight, and not more than the policy has.
        quotas: Vec<Quota> = QUOTAS, required, example "[50/minute]";
        /// How units are counted.
        algorithm: Algorithm = ALGORITHM, absent "the policy's", example "gcra";
    }
}

words! { Rollout { Enforce = "enforce", Shadow = "shadow", Off = "off", } }

impl PolicySpec {
    /// A policy with every other setting at its default.
    pub fn new(name: &str, quotas: Vec<Quota>) -> Self {
        Self { name: name.to_owned(), quotas, ..Self::default() }
    }
}

/// Reads the candidate of a policy. Without an algorithm of its own it has the policy's.
fn candidate(policy: &Node, reader: &mut Reader<'_>) -> Option<CandidateSpec> {
    let mut spec: CandidateSpec = given(&POLICY, "candidate", policy, reader)?;
    if policy.find("candidate.algorithm").is_none() {
        spec.algorithm = given(&POLICY, "algorithm", policy, reader).unwrap_or_default();
    }
    Some(spec)
}
