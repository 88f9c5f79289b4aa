//! A limiter in this process, for when Redis is unavailable.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Cost, Decision, Error, Limiter, Policy, Quota, QuotaDecision, Receipt, Tier, WithQuotas,
};
use tokio::time::Instant;

use crate::report::{Admission, PriorCall, Reports};
use crate::script::ScriptLimits;

/// Decides instead of Redis with this process's share of every limit.
///
/// It also records units that Redis allows and usage that Redis reports, so that it does not start
/// empty. Units that it admits are reported to Redis as soon as Redis is back. Until a key is
/// reported, both decide it. All other keys are decided by Redis alone.
#[derive(Debug)]
pub(crate) struct LocalFallback {
    limiter: Limiter,
    nodes: u64,
    pub(crate) reports: Reports,
}

/// A key in the tables of this process and in Redis.
#[derive(Clone, Copy)]
pub(crate) struct LocalKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) fingerprint: u64,
    pub(crate) tier: Option<&'a Tier>,
    /// The limits with which Redis counts the key.
    pub(crate) limits: &'a Arc<ScriptLimits>,
}

impl LocalFallback {
    /// Creates a fallback for one of `nodes` processes, with its share of `quotas`, rounded down,
    /// but at least one unit. `quotas` are those of the policy within the guard band. Unreported
    /// units may take half of the limiter's memory in addition.
    pub(crate) fn new(
        policy: &Policy,
        quotas: &[Quota],
        nodes: u64,
        memory_limit: usize,
    ) -> Result<Self, Error> {
        let quotas = shares(quotas, nodes)?;
        let policy =
            Policy::builder(policy.name()).quotas(quotas).algorithm(policy.algorithm()).build()?;
        Ok(Self {
            limiter: Limiter::builder(policy).memory_limit(memory_limit).build()?,
            nodes,
            reports: Reports::new(memory_limit / 2),
        })
    }

    /// Creates a tier with this process's share of other quotas.
    pub(crate) fn tier(&self, quotas: &[Quota]) -> Result<Tier, Error> {
        self.limiter.tier(&shares(quotas, self.nodes)?)
    }

    /// Records units that Redis has allowed to this process.
    pub(crate) fn record_taken(&self, key: &[u8], tier: Option<&Tier>, cost: Cost) {
        // Units above its own limit have no effect.
        let _ = self.with(tier).check_cost(key, cost);
    }

    /// Denies a key for a time.
    pub(crate) fn block(&self, key: &[u8], time: Duration) -> Result<(), Error> {
        self.limiter.block(key, time)
    }

    /// Ends a block. Returns `true` if there was one.
    pub(crate) fn unblock(&self, key: &[u8]) -> bool {
        self.limiter.unblock(key)
    }

    /// Records what Redis reports as used by all processes: this process's share of what remains is
    /// all that it may admit. The units are dated now, so the share may be too small for a window.
    pub(crate) fn record_used(&self, key: &[u8], tier: Option<&Tier>, quotas: &[QuotaDecision]) {
        let with = self.with(tier);
        let shares = tier.map_or(self.limiter.policy().quotas(), Tier::quotas);
        let used = with.usage(key);
        let missing =
            shares.iter().zip(quotas).zip(used.as_slice()).map(|((share, quota), used)| {
                let left = share_of(quota.remaining(), self.nodes);
                share.limit().saturating_sub(left).saturating_sub(*used)
            });
        let missing = missing.max().unwrap_or(0);
        if missing > 0 {
            with.charge(key, missing);
        }
    }

    /// Decides instead of Redis. `sent` is the call that Redis may have counted, and `grace` is how
    /// long both decide after the report.
    pub(crate) fn decide(
        &self,
        key: LocalKey<'_>,
        name: impl FnOnce() -> Vec<u8>,
        cost: Cost,
        (sent, grace): (PriorCall, Duration),
        now: Instant,
    ) -> Decision {
        let decision = self.with(key.tier).check_cost(key.key, cost);
        if decision.is_allowed() {
            let admission = Admission { units: cost.get(), sent, grace };
            self.reports.add(key.fingerprint, name, key.limits, admission, now);
        }
        decision
    }

    /// Returns `true` if [`decide`](LocalFallback::decide) issued a receipt.
    pub(crate) fn has_issued(&self, key: &[u8], receipt: &Receipt) -> bool {
        self.limiter.has_issued(key, receipt)
    }

    /// Refunds units of [`decide`](LocalFallback::decide). Returns their number, and how many of
    /// them Redis was charged with.
    pub(crate) fn give_back(
        &self,
        key: LocalKey<'_>,
        receipt: Receipt,
        now: Instant,
    ) -> (u64, u64) {
        let given = self.with(key.tier).refund(receipt);
        (given, self.reports.take_back(key.fingerprint, given, now))
    }

    /// Corrects units of [`decide`](LocalFallback::decide) to the real cost. Returns the units
    /// charged in total, and how many units have to be refunded in Redis.
    pub(crate) fn settle(
        &self,
        key: LocalKey<'_>,
        name: impl FnOnce() -> Vec<u8>,
        receipt: Receipt,
        actual: u64,
        now: Instant,
    ) -> (u64, u64) {
        let units = receipt.units();
        let charged = self.with(key.tier).settle(receipt, actual);
        if charged > units {
            let units = charged - units;
            let admission = Admission { units, sent: PriorCall::None, grace: Duration::ZERO };
            self.reports.add(key.fingerprint, name, key.limits, admission, now);
        }
        (charged, self.reports.take_back(key.fingerprint, units.saturating_sub(charged), now))
    }

    /// Removes a key. Returns `true` if it existed.
    pub(crate) fn reset(&self, key: &[u8], fingerprint: u64) -> bool {
        self.reports.forget(fingerprint);
        self.limiter.reset(key)
    }

    /// Returns the denial of a check while both decide, or `None` if this process has units left.
    pub(crate) fn denial(&self, key: &[u8], tier: Option<&Tier>, cost: Cost) -> Option<Decision> {
        let decision = self.with(tier).peek_cost(key, cost);
        (!decision.is_allowed()).then_some(decision)
    }

    fn with<'a>(&'a self, tier: Option<&'a Tier>) -> WithQuotas<'a> {
        // Only `LocalFallback::tier` creates tiers, so the limiter accepts them.
        self.limiter.with(tier).unwrap_or_else(|_| WithQuotas::from(&self.limiter))
    }
}

/// Returns one process's share of every limit.
fn shares(quotas: &[Quota], nodes: u64) -> Result<Vec<Quota>, Error> {
    quotas.iter().map(|quota| Quota::new(share_of(quota.limit(), nodes), quota.window())).collect()
}

/// Returns one process's share of some units, rounded down: at least one, unless there are none.
fn share_of(units: u64, nodes: u64) -> u64 {
    (units / nodes).max(units.min(1))
}

#[cfg(test)]
mod tests;
