//! What becomes of units that were taken: given back, or corrected to the real cost.
//!
//! A receipt goes back to who handed it out. While Redis was away that was the limiter in this
//! process, for policies that fail so: Redis knows nothing of its units, and would give back others
//! if a date happened to be the same.

use slidegate::{Error, Quota, Receipt};
use tokio::time::Instant;

use super::tier::RedisTier;
use super::{Inner, unexpected};
use crate::local::Local;
use crate::script::{Answer, Op};

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
            self.ask(key, &self.limits(tier), Op::Charge { cost: debt }).await?;
        }
        Ok(units + debt)
    }

    /// The local limiter, if it was the one that handed out a receipt.
    fn issuer(&self, key: &[u8], receipt: &Receipt) -> Option<&Local> {
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
        let answer = self.ask(key, &self.limits(tier), op).await?;
        self.forget_denial(key);
        match answer.only()? {
            Answer::Units(units) => Ok(*units),
            other => Err(unexpected(other)),
        }
    }
}
