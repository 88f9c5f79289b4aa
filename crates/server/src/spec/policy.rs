//! A policy in the configuration.

use core::time::Duration;
use std::collections::BTreeMap;

use slidegate::{Algorithm, FailureMode, Quota};
use slidegate_gate::Rollout;
use slidegate_http::QuotaUnit;

use crate::config::table::{Reader, given, keywords, section};
use crate::config::yaml::Node;

section! {
    /// Named quotas with their settings.
    #[derive(Debug, Clone, PartialEq)]
    pub struct PolicySpec, POLICY = "a policy" {
        /// The name for callers, rules, headers and metrics.
        name: String = Leaf(&NAME), required, example "api";
        /// One to eight quotas. A request takes units from all of them or from none.
        quotas: Vec<Quota> = QUOTAS, required, example "[10/second, {limit: 1000, window: 1h}]";
        /// The algorithm. `log` is exact.
        algorithm: Algorithm = ALGORITHM, default "log", example "{segments: 60}";
        /// Whether denials are enforced, only reported, or the policy is switched off.
        rollout("mode"): Rollout = Choice(Rollout::KEYWORDS), default "enforce", example "shadow";
        /// The percentage of keys for which it is enforced. The others are in shadow mode.
        enforce_percent: u8 = Whole(0, 100), default "100", example "10";
        /// Quotas that are evaluated and reported for comparison, and never enforced.
        key candidate = Section(&CANDIDATE), absent "none", example "{quotas: [50/minute]}";
        /// Other quotas for some keys, by name. With `log` at most as many as `quotas`, otherwise
        /// the same number.
        tiers: BTreeMap<String, Vec<Quota>> = Named(&NAME, &QUOTAS, 64), default "{}",
            example "{gold: [1000/minute]}";
        /// The store of its counts: `memory`, or a name under `stores`.
        store: String = Leaf(&NAME), default "memory", example "shared";
        /// The decision when the store fails. `local` decides in this process.
        failure_mode: FailureMode = Choice(FailureMode::KEYWORDS), default "allow", example "local";
        /// Whether keys are secrets, such as API tokens, that must not appear in logs and servers.
        secret_keys: bool = Flag, default "false", example "true";
        /// What a unit is, for clients: `qu` in `RateLimit-Policy`. `requests` is not written.
        quota_unit: QuotaUnit = Leaf(&QUOTA_UNIT), default "requests", example "tokens";
        /// Whether the limit applies to all nodes together. In `memory` this is not possible, and
        /// causes a warning.
        global: bool = Flag, default "false", example "true";
        /// Quotas that are evaluated for comparison.
        let candidate: Option<CandidateSpec> = candidate, else None;
        /// Settings for a shared store only.
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
        /// The number of keys whose denials by a shared store are cached. 0 disables the cache.
        deny_cache: usize = Whole(0, 1 << 24), default "10000", example "0";
        /// The time for which units of hot keys are taken from a shared store in one call. With
        /// `log`, `log_capped` and `gcra`.
        leases: Option<Duration> = Time(MILLISECOND, SECOND), absent "no leases", example "5ms";
    }
}

section! {
    /// Quotas that are evaluated for comparison.
    #[derive(Debug, Clone, PartialEq)]
    pub struct CandidateSpec, CANDIDATE = "a candidate" {
        /// One to eight quotas, at most as many as the policy has.
        quotas: Vec<Quota> = QUOTAS, required, example "[50/minute]";
        /// The algorithm.
        algorithm: Algorithm = ALGORITHM, absent "the policy's", example "gcra";
    }
}

keywords! { Rollout { Enforce = "enforce", Shadow = "shadow", Off = "off", } }

impl PolicySpec {
    /// Creates a policy with the defaults.
    pub fn new(name: &str, quotas: Vec<Quota>) -> Self {
        Self { name: name.to_owned(), quotas, ..Self::default() }
    }
}

/// Reads the candidate of a policy. Its default algorithm is that of the policy.
fn candidate(policy: &Node, reader: &mut Reader<'_>) -> Option<CandidateSpec> {
    let mut spec: CandidateSpec = given(&POLICY, "candidate", policy, reader)?;
    if policy.find("candidate.algorithm").is_none() {
        spec.algorithm = given(&POLICY, "algorithm", policy, reader).unwrap_or_default();
    }
    Some(spec)
}
