//! Decisions without Redis.

use core::sync::atomic::Ordering;
use core::time::Duration;
use std::sync::Arc;

use slidegate::{Cost, Decision, FailureMode, Outcome, QuotaDecision, RetryAfter};
use tokio::time::Instant;

use super::Inner;
use super::tier::RedisTier;
use crate::deny::ReplyTimes;
use crate::local::{LocalFallback, LocalKey};
use crate::report::PriorCall;
use crate::servers::{Failure, FailureKind};

impl Inner {
    /// Lets the policy's failure mode decide. A check without room in this process is denied in every
    /// mode.
    pub(super) fn degrade(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        failure: &Failure,
    ) -> Decision {
        self.counts.degraded.fetch_add(1, Ordering::Relaxed);
        self.redis.note_degraded(failure);
        if failure.is_unknown() {
            self.counts.unknown.fetch_add(1, Ordering::Relaxed);
        }
        let decision = match (self.policy.failure_mode(), &self.local) {
            // Redis decides for others, so nothing may be admitted in addition.
            _ if failure.is_own_backlog() => self.decide_blindly(Outcome::Deny, tier, failure),
            (FailureMode::Local, Some(local)) => {
                self.decide_locally(local, key, tier, cost, failure)
            }
            (FailureMode::Deny, _) => self.decide_blindly(Outcome::Deny, tier, failure),
            (FailureMode::Allow | FailureMode::Local, _) => {
                self.decide_blindly(Outcome::Allow, tier, failure)
            }
        };
        self.apply_mode(decision.into_degraded(failure.reason()))
    }

    /// Returns a decision without usage: nothing remains if denied, everything if allowed.
    pub(super) fn decide_blindly(
        &self,
        outcome: Outcome,
        tier: Option<&RedisTier>,
        failure: &Failure,
    ) -> Decision {
        let timing = &self.redis.shared.servers.timing;
        let wait = match failure.kind {
            FailureKind::Open(left) => left,
            _ if failure.is_own_backlog() => timing.call,
            _ => timing.breaker.open_min,
        };
        let quotas = tier.map_or(self.policy.quotas(), |tier| &tier.quotas).iter().map(|quota| {
            let limit = self.guard.of(quota.limit());
            match outcome {
                Outcome::Allow => QuotaDecision::new(limit, limit, RetryAfter::Now, Duration::ZERO),
                Outcome::Deny => QuotaDecision::new(limit, 0, wait.into(), wait),
            }
        });
        Decision::new(outcome, &quotas.collect::<Vec<_>>(), None)
    }

    fn decide_locally(
        self: &Arc<Self>,
        local: &LocalFallback,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        failure: &Failure,
    ) -> Decision {
        let sent = failure.late_reply.clone().map_or(PriorCall::None, PriorCall::Check);
        let grace = match failure.kind {
            FailureKind::Open(_) => self.grace(),
            _ => Duration::ZERO,
        };
        let (local_key, name, now) = (self.local_key(key, tier), || self.name(key), Instant::now());
        let decision = local.decide(local_key, name, cost, (sent, grace), now);
        if decision.is_allowed() {
            self.ensure_reporter();
        }
        decision
    }

    /// Returns a key in the form that the local fallback uses.
    pub(super) fn local_key<'a>(
        &'a self,
        key: &'a [u8],
        tier: Option<&'a RedisTier>,
    ) -> LocalKey<'a> {
        LocalKey {
            key,
            tiered_key: self.tiered_key(key, tier),
            tier: tier.and_then(RedisTier::local),
            limits: tier.map_or(&self.limits, |tier| &tier.limits),
        }
    }

    /// Returns the denial by the local fallback for a key that is not reported yet, and that both
    /// decide. Returns `None` if Redis decides.
    pub(super) fn fallback_denial(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        let local = self.local.as_ref()?;
        let fingerprint = self.tiered_key(key, None).key;
        if !local.reports.is_unreported(fingerprint, now) {
            return None;
        }
        self.start_report(local, fingerprint);
        local.denial(key, tier.and_then(RedisTier::local), cost)
    }

    /// Records units that Redis allowed in the local fallback.
    pub(super) fn keep_warm(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) {
        if let Some(local) = &self.local {
            local.record_taken(key, tier.and_then(RedisTier::local), cost);
        }
    }

    /// Records in the local fallback what a reply of Redis says about a key's use and its block.
    pub(super) fn note_reply(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        decision: &Decision,
        times: ReplyTimes,
    ) {
        if let Some(local) = &self.local {
            local.note_reply(key, self.tiered_key(key, tier), decision, times);
        }
    }
}
