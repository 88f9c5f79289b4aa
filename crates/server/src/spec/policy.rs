//! A policy as configured.

use core::time::Duration;
use std::collections::BTreeMap;

use slidegate::{Algorithm, FailureMode, Quota};
pub use slidegate_gate::Rollout as Switch;

/// Named quotas and all that is configured about them.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicySpec {
    /// The name, as [`Policy`](slidegate::Policy) takes it.
    pub name: String,
    /// One to eight.
    pub quotas: Vec<Quota>,
    /// How units are counted.
    pub algorithm: Algorithm,
    /// Whether it is enforced.
    pub switch: Switch,
    /// The share of keys, of a hundred, for which it is enforced; the others are in shadow.
    pub enforce_percent: u8,
    /// Judged beside it and reported, never enforced.
    pub candidate: Option<CandidateSpec>,
    /// Other quotas for some keys, by name.
    pub tiers: BTreeMap<String, Vec<Quota>>,
    /// The name of a store.
    pub store: String,
    /// What to answer when the store fails.
    pub failure_mode: FailureMode,
    /// Whether keys are secrets, such as API tokens, that no log and no server may see.
    pub secret_keys: bool,
    /// Whether it is meant to hold over all nodes: then memory is worth a warning.
    pub global: bool,
    /// What matters only in a shared store.
    pub shared: SharedSpec,
}

/// Quotas that might replace those of a policy.
#[derive(Debug, Clone, PartialEq)]
pub struct CandidateSpec {
    /// As many as the policy has, or fewer.
    pub quotas: Vec<Quota>,
    /// How units are counted.
    pub algorithm: Algorithm,
}

/// Settings of a policy in a shared store.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedSpec {
    /// Nodes among which the limit is divided when the store fails and the failure mode is local.
    pub nodes: u64,
    /// The share of the limit that is handed out, such as 0.95.
    pub guard_band: Option<f64>,
    /// Keys whose denials are remembered here; zero for none.
    pub deny_cache: usize,
    /// How long units are leased for hot keys; `None` for no leases.
    pub leases: Option<Duration>,
}

impl PolicySpec {
    /// A policy with every other setting at its default.
    pub fn new(name: &str, quotas: Vec<Quota>) -> Self {
        Self {
            name: name.to_owned(),
            quotas,
            algorithm: Algorithm::Log,
            switch: Switch::Enforce,
            enforce_percent: 100,
            candidate: None,
            tiers: BTreeMap::new(),
            store: super::MEMORY.to_owned(),
            failure_mode: FailureMode::Allow,
            secret_keys: false,
            global: false,
            shared: SharedSpec::default(),
        }
    }
}

impl Default for SharedSpec {
    fn default() -> Self {
        Self { nodes: 1, guard_band: None, deny_cache: 10_000, leases: None }
    }
}
