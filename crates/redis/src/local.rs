//! A limiter in this process, for when Redis is unavailable.

use core::time::Duration;
use std::sync::Arc;

use slidegate::{
    Algorithm, Cost, Decision, Error, Limiter, Outcome, Policy, Quota, QuotaDecision, Receipt,
    RetryAfter, Tier, WithQuotas,
};
use tokio::time::Instant;

use crate::deny::ReplyTimes;
use crate::key::TieredKey;
use crate::replies::{LastReply, Left, Replies};
use crate::report::{Admission, PriorCall, Reports};
use crate::script::ScriptLimits;

/// Decides instead of Redis with this process's share of every limit.
///
/// It records the units that Redis allows this process, and what each reply of Redis leaves of a key's
/// quotas, so that it does not start empty. `docs/explanation/failure-modes.md` derives how many units
/// all processes together admit. The derivation needs an exact log here, whatever the algorithm of the
/// policy is. Units that it admits are reported to Redis as soon as Redis is back. Until a key is
/// reported, both decide it. All other keys are decided by Redis alone.
#[derive(Debug)]
pub(crate) struct LocalFallback {
    limiter: Limiter,
    nodes: u64,
    replies: Replies,
    pub(crate) reports: Reports,
}

/// A key in the tables of this process and in Redis.
#[derive(Clone, Copy)]
pub(crate) struct LocalKey<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) tiered_key: TieredKey,
    pub(crate) tier: Option<&'a Tier>,
    /// The limits with which Redis counts the key.
    pub(crate) limits: &'a Arc<ScriptLimits>,
}

impl LocalFallback {
    /// Creates a fallback for one of `nodes` processes, with its share of `quotas`, rounded down,
    /// but at least one unit. `quotas` are those of the policy within the guard band. Unreported
    /// units and the last replies may each take half of the limiter's memory in addition.
    pub(crate) fn new(
        policy: &Policy,
        quotas: &[Quota],
        nodes: u64,
        memory_limit: usize,
    ) -> Result<Self, Error> {
        let quotas = shares(quotas, nodes)?;
        let policy =
            Policy::builder(policy.name()).quotas(quotas).algorithm(Algorithm::Log).build()?;
        let limiter = Limiter::builder(policy).memory_limit(memory_limit).build()?;
        Ok(Self::of(limiter, nodes, memory_limit / 2))
    }

    fn of(limiter: Limiter, nodes: u64, bytes_max: usize) -> Self {
        let (replies, reports) = (Replies::new(bytes_max), Reports::new(bytes_max));
        Self { limiter, nodes, replies, reports }
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

    /// Records a reply of Redis: this process's share of what it leaves is all that the process may
    /// admit until the reply is as old as the window, and whether the key is blocked.
    pub(crate) fn note_reply(
        &self,
        key: &[u8],
        tiered_key: TieredKey,
        decision: &Decision,
        times: ReplyTimes,
    ) {
        if decision.is_blocked() {
            // Without memory for it, the key is not blocked while Redis is unavailable.
            let _ = self.block(key, decision.retry_after().duration().unwrap_or_default());
            return;
        }
        let left = decision.quotas().iter().map(|quota| share_of(quota.remaining(), self.nodes));
        let keeps_admitted = || self.reports.is_unreported(tiered_key.key, times.received);
        if self.replies.note(tiered_key, times, left, keeps_admitted) {
            self.unblock(key);
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
        // The reply stays locked until the units are in the table of reports, so that the next reply
        // does not miss them.
        self.replies.with(key.tiered_key, |reply| {
            let decision = self.decide_after(reply, key, cost, now);
            if decision.is_allowed() {
                let admission = Admission { units: cost.get(), sent, grace };
                self.reports.add(key.tiered_key.key, name, key.limits, admission, now);
            }
            decision
        })
    }

    /// Decides with the own share of the limits, and with the share of what the last reply left.
    fn decide_after(
        &self,
        reply: Option<&mut LastReply>,
        key: LocalKey<'_>,
        cost: Cost,
        now: Instant,
    ) -> Decision {
        let with = self.with(key.tier);
        let Some(reply) = reply else {
            return with.check_cost(key.key, cost);
        };
        let quotas = key.tier.map_or(self.limiter.policy().quotas(), Tier::quotas);
        let left = |(place, quota): (usize, &Quota)| reply.left(place, quota.window(), now);
        let left: Vec<Option<Left>> = quotas.iter().enumerate().map(left).collect();
        let is_over = |left: &Left| left.units < cost.get();
        if left.iter().flatten().any(is_over) {
            let decision = with.peek_cost(key.key, cost);
            let limited = decision.quotas().iter().zip(&left).map(|(quota, left)| match left {
                Some(left) if is_over(left) => QuotaDecision::new(
                    quota.limit(),
                    quota.remaining().min(left.units),
                    quota.retry_after().max(left.lasts.into()),
                    quota.reset_after().max(left.lasts),
                ),
                _ => *quota,
            });
            let denial = Decision::new(Outcome::Deny, &limited.collect::<Vec<_>>(), None);
            // Its waits are those of the block already.
            return if decision.is_blocked() {
                denial.into_blocked(Duration::ZERO)
            } else {
                denial
            };
        }
        let mut decision = with.check_cost(key.key, cost);
        if decision.is_allowed() {
            reply.admitted = reply.admitted.saturating_add(cost.get());
            let limited = decision.quotas().iter().zip(&left).map(|(quota, left)| {
                let left = left.map_or(u64::MAX, |left| left.units - cost.get());
                let remaining = quota.remaining().min(left);
                QuotaDecision::new(quota.limit(), remaining, RetryAfter::Now, quota.reset_after())
            });
            let limited: Vec<QuotaDecision> = limited.collect();
            decision = Decision::new(Outcome::Allow, &limited, decision.take_receipt());
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
        self.count_back(key.tiered_key, given);
        (given, self.reports.take_back(key.tiered_key.key, given, now))
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
            self.replies.with(key.tiered_key, |reply| {
                if let Some(reply) = reply {
                    reply.admitted = reply.admitted.saturating_add(units);
                }
                self.reports.add(key.tiered_key.key, name, key.limits, admission, now);
            });
        }
        let given = units.saturating_sub(charged);
        self.count_back(key.tiered_key, given);
        (charged, self.reports.take_back(key.tiered_key.key, given, now))
    }

    /// Lets units that were returned be admitted again.
    fn count_back(&self, key: TieredKey, units: u64) {
        self.replies.with(key, |reply| {
            if let Some(reply) = reply {
                reply.admitted = reply.admitted.saturating_sub(units);
            }
        });
    }

    /// Removes a key. Returns `true` if it existed.
    pub(crate) fn reset(&self, key: &[u8], fingerprint: u64) -> bool {
        self.replies.forget(fingerprint);
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
