//! Units that were taken: given back, or corrected to the real cost.
//!
//! A receipt is redeemed where it was issued. With `FailureMode::Local` that may be the local
//! fallback: Redis has not recorded those units, and would give back others of the same tick.

use slidegate::{Error, Quota, Receipt};
use tokio::time::Instant;

use super::Inner;
use super::tier::RedisTier;
use crate::local::LocalFallback;
use crate::script::Op;

impl Inner {
    pub(super) async fn refund(
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

    pub(super) async fn settle(
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
        let debt = (actual - units).min(Quota::LIMIT_MAX);
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
