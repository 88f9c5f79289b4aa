//! Answers without Redis.

use core::sync::atomic::Ordering;
use core::time::Duration;

use slidegate::{Cost, Decision, FailureMode, Outcome, QuotaDecision};
use tokio::time::Instant;

use super::Inner;
use super::tier::RedisTier;
use crate::script::Op;
use crate::servers::{Failure, FailureKind};

impl Inner {
    /// What the policy says when Redis has no answer.
    pub(super) fn degrade(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        failure: &Failure,
    ) -> Decision {
        self.counts.degraded.fetch_add(1, Ordering::Relaxed);
        if failure.is_unknown() {
            self.counts.unknown.fetch_add(1, Ordering::Relaxed);
        }
        let decision = match (self.policy.failure_mode(), &self.local) {
            (FailureMode::Local, Some(local)) => {
                local.judge(key, tier.and_then(RedisTier::local), cost, Instant::now())
            }
            (FailureMode::Deny, _) => self.answer_all(Outcome::Deny, tier, failure),
            (FailureMode::Allow | FailureMode::Local, _) => {
                self.answer_all(Outcome::Allow, tier, failure)
            }
        };
        self.finish(decision.into_degraded())
    }

    /// An answer without knowledge: nothing is left when denying, everything when allowing.
    pub(super) fn answer_all(
        &self,
        outcome: Outcome,
        tier: Option<&RedisTier>,
        failure: &Failure,
    ) -> Decision {
        let wait = match failure.kind {
            FailureKind::Open(left) => left,
            _ => self.redis.shared.servers.timing.breaker.open_min,
        };
        let quotas = tier.map_or(self.policy.quotas(), RedisTier::quotas).iter().map(|quota| {
            let limit = self.guard.of(quota.limit());
            match outcome {
                Outcome::Allow => {
                    QuotaDecision::new(limit, limit, Some(Duration::ZERO), Duration::ZERO)
                }
                Outcome::Deny => QuotaDecision::new(limit, 0, Some(wait), wait),
            }
        });
        Decision::new(outcome, &quotas.collect::<Vec<_>>(), None)
    }

    /// The denial of a request while the local limiter judges beside Redis; none if it may pass on.
    pub(super) fn denied_locally(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        self.local.as_ref()?.denies(key, tier.and_then(RedisTier::local), cost, now)
    }

    /// Tries whether the server of a key that is denied here is back, if it is time to. Otherwise,
    /// when only such keys come, nobody would find out.
    pub(super) async fn probe(&self, key: &[u8], tier: Option<&RedisTier>, until: Instant) {
        if self.redis.shared.servers.is_probe_due(&self.name(key)) {
            // The breaker hears of the answer; the request is denied whatever it is.
            let _ = self.ask_until(key, &self.limits(tier), Op::Peek { cost: 1 }, until).await;
        }
    }

    /// Tells the local limiter what Redis has allowed.
    pub(super) fn keep_warm(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) {
        if let Some(local) = &self.local {
            local.keep_warm(key, tier.and_then(RedisTier::local), cost);
        }
    }
}
