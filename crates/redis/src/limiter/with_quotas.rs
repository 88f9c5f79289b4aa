//! A limiter on Redis with the quotas that its methods apply.

use std::sync::Arc;

use slidegate::{Cost, Decision, Error, Event, Receipt, Usage};

use super::RedisLimiter;
use super::tier::RedisTier;
use crate::script::Op;

/// A limiter on Redis with the quotas of the policy or of a tier: see [`RedisLimiter::with`].
///
/// The methods of [`RedisLimiter`] that have the same names are these methods with the policy's
/// quotas.
#[derive(Debug, Clone, Copy)]
pub struct RedisWithQuotas<'a> {
    pub(super) limiter: &'a RedisLimiter,
    pub(super) tier: Option<&'a RedisTier>,
}

impl<'a> From<&'a RedisLimiter> for RedisWithQuotas<'a> {
    fn from(limiter: &'a RedisLimiter) -> Self {
        Self { limiter, tier: None }
    }
}

impl<'a> From<&'a Arc<RedisLimiter>> for RedisWithQuotas<'a> {
    fn from(limiter: &'a Arc<RedisLimiter>) -> Self {
        Self::from(&**limiter)
    }
}

impl RedisWithQuotas<'_> {
    /// Asks for one unit, and takes it if allowed.
    pub async fn check(self, key: impl AsRef<[u8]>) -> Decision {
        self.check_cost(key, Cost::ONE).await
    }

    /// Asks for several units, and takes them all if allowed.
    pub async fn check_cost(self, key: impl AsRef<[u8]>, cost: Cost) -> Decision {
        self.limiter.inner.check(key.as_ref(), self.tier, cost).await
    }

    /// Decides as [`check_cost`](Self::check_cost) would, without taking anything.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn peek(self, key: impl AsRef<[u8]>, cost: Cost) -> Result<Decision, Error> {
        self.limiter.inner.peek(key.as_ref(), self.tier, cost).await
    }

    /// Returns the exact units of a receipt. Returns how many there were: none after they have
    /// expired, the key was reset, or Redis has lost them. Units that the local limiter of
    /// [`FailureMode::Local`](slidegate::FailureMode::Local) admitted are returned to it without
    /// a call to Redis.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn refund(self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        self.limiter.inner.refund(key.as_ref(), self.tier, receipt).await
    }

    /// Corrects a reservation to its actual cost, and returns how many units are charged in all.
    /// Missing units are recorded as debt, above the limit if necessary.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn settle(
        self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        self.limiter.inner.settle(key.as_ref(), self.tier, receipt, actual).await
    }

    /// Returns up to `units` without a receipt, oldest first, and returns how many there were. For
    /// callers that cannot keep receipts.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer; the units may have been returned.
    pub async fn forgive(self, key: impl AsRef<[u8]>, units: u64) -> Result<u64, Error> {
        let (inner, key) = (&self.limiter.inner, key.as_ref());
        let called = inner.run_op(key, &inner.limits(self.tier), Op::Forgive { units }).await?;
        inner.forget_denial(key);
        Ok(called.reply.units()?)
    }

    /// Returns the units that count against each quota now.
    ///
    /// # Errors
    ///
    /// Returns an error if Redis did not answer.
    pub async fn usage(self, key: impl AsRef<[u8]>) -> Result<Usage, Error> {
        self.limiter.inner.usage(key.as_ref(), self.tier).await
    }

    /// Returns every request that is still in the longest window, oldest first.
    ///
    /// # Errors
    ///
    /// Returns an error if the algorithm is not a log, or if Redis did not answer.
    pub async fn history(self, key: impl AsRef<[u8]>) -> Result<Vec<Event>, Error> {
        self.limiter.inner.history(key.as_ref(), self.tier).await
    }
}
