//! Other quotas for some keys.

use core::hash::{Hash, Hasher};
use core::sync::atomic::Ordering;
use core::time::Duration;
use std::hash::DefaultHasher;
use std::sync::Arc;

use slidegate::{Error, Quota, Tier};

use super::Inner;
use crate::script::ScriptLimits;

/// The prepared quotas of a [`Tier`] for a limiter on Redis.
#[derive(Debug, Clone)]
pub(super) struct RedisTier {
    pub(super) quotas: Box<[Quota]>,
    pub(super) limits: Arc<ScriptLimits>,
    /// The quotas while Redis is unavailable, with this process's share of every limit.
    local: Option<Tier>,
    /// Distinguishes the tier in the tables of this process. Never zero.
    pub(super) salt: u64,
}

impl RedisTier {
    pub(super) fn new(quotas: &[Quota], inner: &Inner) -> Result<Self, Error> {
        let algorithm = inner.policy.algorithm();
        let mut hasher = DefaultHasher::new();
        for quota in quotas {
            (quota.limit(), quota.window()).hash(&mut hasher);
        }
        let guarded = inner.guard.quotas(quotas)?;
        let longest = longest(quotas);
        let limits = Arc::new(ScriptLimits::new(&guarded, algorithm, inner.tick, longest)?);
        let local = inner.local.as_ref().map(|local| local.tier(&guarded)).transpose()?;
        Ok(Self { quotas: quotas.into(), limits, local, salt: hasher.finish() | 1 })
    }

    pub(super) fn local(&self) -> Option<&Tier> {
        self.local.as_ref()
    }
}

impl Inner {
    /// Prepares other quotas than the policy's, and keeps keys for their windows from now on.
    pub(super) fn prepare(&self, quotas: &[Quota]) -> Result<RedisTier, Error> {
        let tier = RedisTier::new(quotas, self)?;
        let nanos = u64::try_from(longest(quotas).as_nanos()).unwrap_or(u64::MAX);
        self.keep.fetch_max(nanos, Ordering::Relaxed);
        Ok(tier)
    }
}

pub(super) fn longest(quotas: &[Quota]) -> Duration {
    quotas.iter().map(Quota::window).max().unwrap_or_default()
}
