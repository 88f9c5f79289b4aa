//! Options of a policy.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Deserialize;
use slidegate::{
    Algorithm, Error, ErrorKind, FailureMode, Limiter, ManualClock, OnFull, Policy, Quota, Store,
};
use slidegate_gate::{Gate, Metrics, Rollout};
use slidegate_http::QuotaUnit;
use slidegate_redis::Redis;

use crate::quota::{QuotaList, Time};

/// A policy, as an item of `policies` in a file of the daemon. Keys may also be in camel case.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PolicyOptions {
    /// The name in header fields, metrics and Redis.
    pub name: String,
    /// One to eight quotas.
    pub quotas: QuotaList,
    /// The algorithm. `log` by default.
    #[serde(default)]
    pub algorithm: Algorithm,
    /// `enforce`, `shadow` or `off`.
    #[serde(default)]
    pub mode: Option<String>,
    /// The percentage of keys for which denials are enforced.
    #[serde(default, alias = "enforcePercent")]
    pub enforce_percent: Option<u8>,
    /// Quotas that are evaluated for comparison.
    #[serde(default)]
    pub candidate: Option<CandidateOptions>,
    /// Other quotas for some keys, by name.
    #[serde(default)]
    pub tiers: BTreeMap<String, QuotaList>,
    /// The name of the store: `memory`, or a name under `stores`.
    #[serde(default)]
    pub store: Option<String>,
    /// The decision when the store fails.
    #[serde(default, alias = "failureMode")]
    pub failure_mode: FailureMode,
    /// Whether keys are secrets.
    #[serde(default, alias = "secretKeys")]
    pub secret_keys: bool,
    /// What a unit is, for clients.
    #[serde(default, alias = "quotaUnit")]
    pub quota_unit: Option<String>,
    /// Read for files of the daemon, which warns if such a policy is in memory.
    #[serde(default)]
    pub global: bool,
    /// Nodes among which the limit is divided while the store fails.
    #[serde(default)]
    pub nodes: Option<u64>,
    /// The share of every limit that is used, in a shared store.
    #[serde(default, alias = "guardBand")]
    pub guard_band: Option<f64>,
    /// The number of keys whose denials by a shared store are cached.
    #[serde(default, alias = "denyCache")]
    pub deny_cache: Option<usize>,
    #[serde(default)]
    leases: Option<Time>,
    /// The unit of stored time. Only in packages.
    #[serde(default)]
    tick: Option<Time>,
}

/// Quotas that are evaluated for comparison and never enforced.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CandidateOptions {
    /// One to eight quotas.
    pub quotas: QuotaList,
    /// The algorithm: the policy's by default.
    pub algorithm: Option<Algorithm>,
}

/// Where the state of a policy is.
#[derive(Debug, Clone)]
pub enum Place {
    /// In this process, at most this many bytes.
    Memory {
        /// The memory limit of the policy in bytes.
        bytes: usize,
        /// What happens to a key that does not fit.
        on_full: OnFull,
    },
    /// In Redis.
    Redis(Redis),
}

impl PolicyOptions {
    /// Reads options as JSON.
    ///
    /// # Errors
    ///
    /// Returns an error if a key is unknown or a value is invalid.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        serde_json::from_str(json).map_err(|error| {
            Error::new(ErrorKind::Policy, format!("invalid options of a policy: {error}"))
        })
    }

    /// Makes the gate of this policy. With `clock`, time is the test's.
    ///
    /// # Errors
    ///
    /// Returns an error if a value is out of range, or if a manual clock is combined with Redis,
    /// whose time is that of the server.
    pub fn gate(
        &self,
        place: &Place,
        clock: Option<&ManualClock>,
        metrics: &Arc<Metrics>,
    ) -> Result<Gate, Error> {
        let store = self.make_store(&self.name, &self.quotas.0, self.algorithm, place, clock)?;
        metrics.register_store(self.store.as_deref().unwrap_or("memory"), &store);
        let mut gate = Gate::builder(store)
            .name(&self.name)
            .rollout(self.rollout()?)
            .enforce_percent(self.enforce_percent.unwrap_or(100))
            .secret_keys(self.secret_keys)
            .metrics(metrics);
        if let Some(clock) = clock {
            gate = gate.clock(Arc::new(clock.clone()));
        }
        for (name, quotas) in &self.tiers {
            gate = gate.tier(name, quotas.0.as_slice());
        }
        if let Some(candidate) = &self.candidate {
            let (name, quotas) = (format!("{}:candidate", self.name), &candidate.quotas.0);
            let algorithm = candidate.algorithm.unwrap_or(self.algorithm);
            let store = self.make_store(&name, quotas, algorithm, place, clock)?;
            gate = gate.candidate_quotas(store, quotas);
        }
        gate.build()
    }

    /// Returns what a unit is, for clients.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is invalid.
    pub fn unit(&self) -> Result<QuotaUnit, Error> {
        self.quota_unit
            .as_ref()
            .map_or(Ok(QuotaUnit::REQUESTS), |unit| QuotaUnit::new(unit.clone()))
    }

    /// Returns the number of stores that this policy needs.
    pub(crate) fn stores(&self) -> usize {
        1 + usize::from(self.candidate.is_some())
    }

    fn rollout(&self) -> Result<Rollout, Error> {
        let all = [Rollout::Enforce, Rollout::Shadow, Rollout::Off];
        let wanted = self.mode.as_deref().unwrap_or("enforce");
        all.into_iter().find(|rollout| rollout.name() == wanted).ok_or_else(|| {
            let message = format!("unknown mode {wanted:?}: use enforce, shadow or off");
            Error::new(ErrorKind::Policy, message)
        })
    }

    fn make_store(
        &self,
        name: &str,
        quotas: &[Quota],
        algorithm: Algorithm,
        place: &Place,
        clock: Option<&ManualClock>,
    ) -> Result<Arc<dyn Store>, Error> {
        let policy = Policy::builder(name)
            .quotas(quotas.iter().copied())
            .algorithm(algorithm)
            .failure_mode(self.failure_mode)
            .build()?;
        match place {
            Place::Memory { bytes, on_full } => {
                let mut builder = Limiter::builder(policy).memory_limit(*bytes).on_full(*on_full);
                if let Some(clock) = clock {
                    builder = builder.clock(clock.clone());
                }
                if let Some(Time(tick)) = self.tick {
                    builder = builder.tick(tick);
                }
                Ok(Arc::new(builder.build()?))
            }
            Place::Redis(_) if clock.is_some() => {
                let message = "a manual clock works in memory only: Redis uses the server's time";
                Err(Error::new(ErrorKind::Setting, message))
            }
            Place::Redis(redis) => self.in_redis(policy, redis),
        }
    }

    fn in_redis(&self, policy: Policy, redis: &Redis) -> Result<Arc<dyn Store>, Error> {
        let mut builder = redis.limiter(policy);
        if let Some(nodes) = self.nodes {
            builder = builder.nodes(nodes);
        }
        if let Some(keys) = self.deny_cache {
            builder = builder.deny_cache(keys);
        }
        if let Some(share) = self.guard_band {
            builder = builder.guard_band(share);
        }
        if let Some(Time(length)) = self.leases {
            builder = builder.leases(length);
        }
        if let Some(Time(tick)) = self.tick {
            builder = builder.tick(tick);
        }
        if self.secret_keys {
            builder = builder.secret_keys();
        }
        Ok(Arc::new(builder.build()?))
    }

    /// Sets the unit of stored time, one millisecond by default.
    #[must_use]
    pub fn with_tick(mut self, tick: Duration) -> Self {
        self.tick = Some(Time(tick));
        self
    }
}
