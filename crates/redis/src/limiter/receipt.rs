//! Units that were taken: given back, or corrected to the real cost.
//!
//! A receipt is redeemed where it was issued. With `FailureMode::Local` that may be the local
//! fallback: Redis has not recorded those units, and would give back others of the same tick.

use slidegate::{Cost, Decision, Error, Receipt};
use tokio::time::Instant;

use super::{Inner, RedisLimiter, RedisTier};
use crate::local::LocalFallback;
use crate::script::{Op, UNITS_MAX};

impl RedisLimiter {
    /// Takes an estimate now; [`settle`](RedisLimiter::settle) corrects it when the cost is known.
    pub async fn reserve(&self, key: impl AsRef<[u8]>, estimate: Cost) -> Decision {
        self.check_cost(key, estimate).await
    }

    /// Gives back the very units that a receipt names, and says how many there were to give: none
    /// after they have expired, the key was reset, or Redis has lost them. What the local limiter
    /// of [`FailureMode::Local`](slidegate::FailureMode::Local) let through goes back to it, and
    /// Redis is not asked.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer; the units may have been given back.
    pub async fn refund(&self, key: impl AsRef<[u8]>, receipt: Receipt) -> Result<u64, Error> {
        self.inner.refund(key.as_ref(), None, receipt).await
    }

    /// As [`refund`](RedisLimiter::refund), of a receipt from
    /// [`check_tier`](RedisLimiter::check_tier).
    ///
    /// # Errors
    ///
    /// When Redis gave no answer; the units may have been given back.
    pub async fn refund_tier(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        tier: &RedisTier,
    ) -> Result<u64, Error> {
        self.inner.refund(key.as_ref(), Some(tier), receipt).await
    }

    /// Gives back up to `units` that no receipt names, and says how many there were: the oldest
    /// that count first, as they would be free again soonest anyway. For callers that cannot keep
    /// receipts.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer; the units may have been given back.
    pub async fn forgive(
        &self,
        key: impl AsRef<[u8]>,
        tier: Option<&RedisTier>,
        units: u64,
    ) -> Result<u64, Error> {
        let key = key.as_ref();
        let op = Op::Forgive { units };
        let called = self.inner.run_op(key, &self.inner.limits(tier), op).await?;
        self.inner.forget_denial(key);
        Ok(called.reply.units()?)
    }

    /// Corrects an estimate to the real cost, and says how many units were charged for it in all.
    /// What was taken too little is recorded as debt, above the limit if need be.
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn settle(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        self.inner.settle(key.as_ref(), None, receipt, actual).await
    }

    /// As [`settle`](RedisLimiter::settle), of a receipt from
    /// [`check_tier`](RedisLimiter::check_tier).
    ///
    /// # Errors
    ///
    /// When Redis gave no answer.
    pub async fn settle_tier(
        &self,
        key: impl AsRef<[u8]>,
        receipt: Receipt,
        actual: u64,
        tier: &RedisTier,
    ) -> Result<u64, Error> {
        self.inner.settle(key.as_ref(), Some(tier), receipt, actual).await
    }
}

impl Inner {
    async fn refund(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        receipt: Receipt,
    ) -> Result<u64, Error> {
        if let Some(local) = self.issuer(key, &receipt) {
            return Ok(local.give_back(receipt, tier.and_then(RedisTier::local)));
        }
        self.give_back(key, tier, &receipt, receipt.units()).await
    }

    async fn settle(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        if let Some(local) = self.issuer(key, &receipt) {
            let tier = tier.and_then(RedisTier::local);
            return Ok(local.settle(key, receipt, actual, tier, Instant::now()));
        }
        let units = receipt.units();
        if actual < units {
            let given = self.give_back(key, tier, &receipt, units - actual).await?;
            return Ok(units - given);
        }
        let debt = (actual - units).min(UNITS_MAX);
        if debt > 0 {
            self.run_op(key, &self.limits(tier), Op::Charge { cost: debt }).await?;
        }
        Ok(units + debt)
    }

    /// The local limiter, if it was the one that handed out a receipt.
    fn issuer(&self, key: &[u8], receipt: &Receipt) -> Option<&LocalFallback> {
        self.local.as_ref().filter(|local| local.has_issued(key, receipt))
    }

    async fn give_back(
        &self,
        key: &[u8],
        tier: Option<&RedisTier>,
        receipt: &Receipt,
        units: u64,
    ) -> Result<u64, Error> {
        let op = Op::Refund { tick: receipt.tick(), units, epoch: receipt.epoch() };
        let called = self.run_op(key, &self.limits(tier), op).await?;
        self.forget_denial(key);
        Ok(called.reply.units()?)
    }
}
