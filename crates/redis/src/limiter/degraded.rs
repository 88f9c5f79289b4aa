//! Decisions without Redis.

use core::sync::atomic::Ordering;
use core::time::Duration;

use slidegate::{Cost, Decision, FailureMode, Outcome, QuotaDecision, RetryAfter};
use tokio::time::Instant;

use super::Inner;
use super::tier::RedisTier;
use crate::script::Op;
use crate::servers::{Failure, FailureKind};

impl Inner {
    /// Decides by the policy's failure mode.
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
                local.decide(key, tier.and_then(RedisTier::local), cost, Instant::now())
            }
            (FailureMode::Deny, _) => self.decide_blindly(Outcome::Deny, tier, failure),
            (FailureMode::Allow | FailureMode::Local, _) => {
                self.decide_blindly(Outcome::Allow, tier, failure)
            }
        };
        self.apply_mode(decision.into_degraded(failure.reason()))
    }

    /// A decision without usage: nothing remains when denying, everything when allowing.
    pub(super) fn decide_blindly(
        &self,
        outcome: Outcome,
        tier: Option<&RedisTier>,
        failure: &Failure,
    ) -> Decision {
        let wait = match failure.kind {
            FailureKind::Open(left) => left,
            _ => self.redis.shared.servers.timing.breaker.open_min,
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

    /// The denial of a check while the local fallback still decides along with Redis. Returns `None`
    /// if Redis decides.
    pub(super) fn fallback_denial(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        now: Instant,
    ) -> Option<Decision> {
        self.local.as_ref()?.denial(key, tier.and_then(RedisTier::local), cost, now)
    }

    /// Probes the server of a key that the fallback denies, if its breaker is due for a probe.
    /// Without this, a server would stay unavailable while only such keys are checked.
    pub(super) async fn probe(&self, key: &[u8], tier: Option<&RedisTier>, until: Instant) {
        if self.redis.shared.servers.is_probe_due(&self.name(key)) {
            // The breaker sees the reply; the check is denied whatever it is.
            let _ = self.run_op_until(key, &self.limits(tier), Op::Peek { cost: 1 }, until).await;
        }
    }

    /// Records what Redis has allowed in the local fallback.
    pub(super) fn keep_warm(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) {
        if let Some(local) = &self.local {
            local.keep_warm(key, tier.and_then(RedisTier::local), cost);
        }
    }
}
