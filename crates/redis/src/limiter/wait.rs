//! Waiting for units instead of being denied.

use core::pin::pin;
use core::time::Duration;
use std::sync::Arc;

use futures_util::future::{Either, select};
use slidegate::{Cost, Decision, DegradedReason, Error, Outcome, SleepFn};
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::tier::RedisTier;
use super::with_quotas::TierOf;
use super::{Inner, RedisLimiter, RedisWithQuotas};
use crate::script::Op;
use crate::servers::Failure;

/// The shortest pause before the caller at the front checks again.
const PAUSE_MIN: Duration = Duration::from_millis(1);

/// The longest pause: units that other processes return are noticed after it.
const PAUSE_MAX: Duration = Duration::from_secs(1);

impl Inner {
    /// Takes units as soon as they are available, within `timeout`.
    pub(super) async fn wait(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        timeout: Duration,
        sleep: &SleepFn,
    ) -> Result<Decision, Error> {
        if Handle::try_current().is_err() {
            return Ok(self.check(key, tier, cost).await);
        }
        let mut wait_time = WaitTime::new(timeout, sleep);
        let fingerprint = self.tiered_key(key, tier).key;
        let mut denied = None;
        if let Some(ahead) = self.wait_queues.units(fingerprint) {
            let denial = self.look_behind(key, tier, cost, ahead).await;
            if let Some(denial) =
                denial.filter(|denial| denial.is_blocked() || !wait_time.covers(denial))
            {
                return Ok(denial);
            }
        } else {
            let decision = match self.check_cached(key, tier, cost) {
                Some(denial) => denial,
                None => self.check_safely(key, tier, cost).await,
            };
            if decision.is_allowed() || decision.is_blocked() || !wait_time.covers(&decision) {
                return Ok(decision);
            }
            denied = Some(decision);
        }
        let place = self.wait_queues.join(fingerprint, cost.get())?;
        let (_front, mut decision) = match (denied, place.try_front()) {
            (Some(denied), Some(front)) => (front, denied),
            (_, Some(front)) => (front, self.check_safely(key, tier, cost).await),
            (_, None) => match wait_time.sleep_unless(wait_time.left(), place.front()).await {
                Some(front) => (front, self.check_safely(key, tier, cost).await),
                None => return Ok(self.denial(key, tier, cost).await),
            },
        };
        while !decision.is_allowed() && !decision.is_blocked() && wait_time.covers(&decision) {
            let pause = decision.retry_after().duration().unwrap_or(PAUSE_MAX);
            wait_time.sleep_unless(pause.clamp(PAUSE_MIN, PAUSE_MAX), place.returned()).await;
            decision = self.check_safely(key, tier, cost).await;
        }
        Ok(decision)
    }

    /// Returns the denial of a caller that has to wait behind others: its turn does not come before
    /// `retry_after`. Returns `None` if that is not known, or if nothing is missing.
    async fn look_behind(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
        ahead: u64,
    ) -> Option<Decision> {
        let (limits, own) = (self.limits(tier), cost.get());
        // Units above the limit are taken in later windows. So the turn does not come before the
        // whole limit is available, unless the caller's own cost never is.
        let cost = ahead.saturating_add(own).min(limits.least_limit().max(own));
        let called = self.run_op(key, &limits, Op::Peek { cost }).await.ok()?;
        called.reply.decision(0).ok().filter(|decision| !decision.is_allowed())
    }

    /// Returns the denial of a caller whose time is over.
    async fn denial(&self, key: &[u8], tier: Option<&RedisTier>, cost: Cost) -> Decision {
        let called = self.run_op(key, &self.limits(tier), Op::Peek { cost: cost.get() }).await;
        match called.and_then(|called| called.reply.decision(0)) {
            Ok(decision) => decision.into_denied(),
            Err(failure) => {
                self.redis.note_degraded(&failure);
                self.decide_blindly(Outcome::Deny, tier, &failure).into_degraded(failure.reason())
            }
        }
    }

    /// Checks on a task of its own. If the caller is dropped before it has the decision, the units are
    /// returned.
    async fn check_safely(
        self: &Arc<Self>,
        key: &[u8],
        tier: Option<&RedisTier>,
        cost: Cost,
    ) -> Decision {
        let (sender, receiver) = oneshot::channel();
        let (inner, key, tier) = (Arc::clone(self), Box::<[u8]>::from(key), tier.cloned());
        let failed = (Arc::clone(self), key.clone(), tier.clone());
        tokio::spawn(async move {
            let decision = Some(inner.check_uncached(&key, tier.as_ref(), cost).await);
            let _ = sender.send(Undelivered { inner, key, tier, decision });
        });
        let delivered = receiver.await.ok().and_then(|mut undelivered| undelivered.decision.take());
        delivered.unwrap_or_else(|| {
            let (inner, key, tier) = failed;
            let why = "the runtime ended before the reply arrived";
            let failure = Failure::unknown(DegradedReason::NoRuntime, why);
            inner.degrade(&key, tier.as_ref(), cost, &failure)
        })
    }
}

/// A decision on its way to its caller. Dropping it returns the units.
struct Undelivered {
    inner: Arc<Inner>,
    key: Box<[u8]>,
    tier: Option<RedisTier>,
    decision: Option<Decision>,
}

impl Drop for Undelivered {
    fn drop(&mut self) {
        let receipt = self.decision.take().and_then(Decision::into_receipt);
        // Without a runtime, the units count until their window has passed.
        if let (Some(receipt), Ok(runtime)) = (receipt, Handle::try_current()) {
            let limiter = RedisLimiter { inner: Arc::clone(&self.inner) };
            let (key, tier) = (core::mem::take(&mut self.key), self.tier.take());
            runtime.spawn(async move {
                let quotas = tier.map_or(TierOf::Policy, |tier| TierOf::Given(Arc::new(tier)));
                let limiter = RedisWithQuotas { limiter: &limiter, quotas };
                let _ = limiter.refund(&key, receipt).await;
            });
        }
    }
}

/// The time that a caller may still wait.
struct WaitTime<'a> {
    sleep: &'a SleepFn,
    began: Instant,
    timeout: Duration,
    /// Counted too, because a test may sleep by moving another clock.
    slept: Duration,
}

impl<'a> WaitTime<'a> {
    fn new(timeout: Duration, sleep: &'a SleepFn) -> Self {
        Self { sleep, began: Instant::now(), timeout, slept: Duration::ZERO }
    }

    fn left(&self) -> Duration {
        self.timeout.saturating_sub(self.began.elapsed().max(self.slept))
    }

    /// Whether a request that was denied may pass in time.
    fn covers(&self, denied: &Decision) -> bool {
        denied.retry_after().duration().is_some_and(|after| after <= self.left())
    }

    /// Sleeps for a time. Returns the output of `event` if it is ready earlier.
    async fn sleep_unless<T>(
        &mut self,
        time: Duration,
        event: impl Future<Output = T>,
    ) -> Option<T> {
        let time = time.min(self.left());
        match select(pin!(event), (self.sleep)(time)).await {
            Either::Left((output, _)) => Some(output),
            Either::Right(_) => {
                self.slept += time;
                None
            }
        }
    }
}
