//! The policy of a trace.

use core::time::Duration;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
pub use slidegate::Mode;
use slidegate::{Error, Policy, Quota};

/// The quotas of a trace and their algorithm.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PolicySpec {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// One to eight quotas.
    pub quotas: Vec<QuotaSpec>,
    /// The number of sub-windows, only for `segments`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segments: Option<u16>,
    /// The byte cap of a log, only for `log`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_max: Option<u32>,
    /// Whether denials are enforced.
    #[serde(default, skip_serializing_if = "is_enforce")]
    pub mode: Mode,
    /// The unit of stored time.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub tick_ms: u64,
    /// Other quotas, by name, that a step may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tiers: BTreeMap<String, Vec<QuotaSpec>>,
}

/// At most `limit` units in any `window_ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QuotaSpec {
    /// Units allowed.
    pub limit: u64,
    /// Length of the window in milliseconds.
    pub window_ms: u64,
}

/// The algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Algorithm {
    /// The exact log, capped if the policy has `bytes_max`.
    Log,
    /// Two weighted windows.
    Counter,
    /// Sub-windows.
    Segments,
    /// A bucket that refills evenly.
    Gcra,
    /// One aligned window.
    Fixed,
}

impl Algorithm {
    /// All algorithms.
    pub const ALL: [Self; 5] = [Self::Log, Self::Counter, Self::Segments, Self::Gcra, Self::Fixed];
}

impl PolicySpec {
    /// Creates a policy with these quotas and the defaults.
    pub fn new(algorithm: Algorithm, quotas: Vec<QuotaSpec>) -> Self {
        Self {
            algorithm,
            quotas,
            segments: None,
            bytes_max: None,
            mode: Mode::Enforce,
            tick_ms: 1,
            tiers: BTreeMap::new(),
        }
    }

    /// Returns the policy for a limiter.
    pub fn policy(&self, name: &str) -> Result<Policy, Error> {
        let policy = Policy::builder(name).quotas(quotas(&self.quotas)?);
        policy.algorithm(self.limiter_algorithm()?).mode(self.mode).build()
    }

    /// Returns the algorithm with its parameter.
    pub fn limiter_algorithm(&self) -> Result<slidegate::Algorithm, Error> {
        let (name, parameter) = match (self.algorithm, self.bytes_max) {
            (Algorithm::Log, None) => ("log", None),
            (Algorithm::Log, bytes_max) => ("log_capped", bytes_max),
            (Algorithm::Counter, _) => ("counter", None),
            (Algorithm::Segments, _) => ("segments", self.segments.map(u32::from)),
            (Algorithm::Gcra, _) => ("gcra", None),
            (Algorithm::Fixed, _) => ("fixed", None),
        };
        slidegate::Algorithm::from_parts(name, parameter.map(u64::from))
    }

    /// Returns an error message if the policy is invalid.
    pub(crate) fn fault(&self) -> Option<String> {
        if (self.algorithm == Algorithm::Segments) != self.segments.is_some() {
            return Some("`segments` belongs to the algorithm segments, and only there".into());
        }
        if self.bytes_max.is_some() && self.algorithm != Algorithm::Log {
            return Some("`bytes_max` belongs to the algorithm log".into());
        }
        let mut all = self.tiers.values().chain([&self.quotas]);
        if !all.clone().all(|quotas| (1..=Policy::QUOTAS_MAX).contains(&quotas.len())) {
            return Some("a policy and a tier have one to eight quotas".into());
        }
        if self.tick_ms == 0 || all.any(|quotas| quotas.iter().any(QuotaSpec::has_no_window)) {
            return Some("windows and ticks are never zero".into());
        }
        None
    }
}

impl QuotaSpec {
    fn has_no_window(&self) -> bool {
        self.window_ms == 0
    }
}

/// Returns the quotas for a limiter.
pub fn quotas(specs: &[QuotaSpec]) -> Result<Vec<Quota>, Error> {
    specs.iter().map(|spec| Quota::new(spec.limit, Duration::from_millis(spec.window_ms))).collect()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_enforce(mode: &Mode) -> bool {
    *mode == Mode::Enforce
}

pub(crate) fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
pub(crate) fn is_one(value: &u64) -> bool {
    *value == 1
}
