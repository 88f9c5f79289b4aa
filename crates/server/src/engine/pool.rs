//! State: a limiter in memory or one in Redis, under one face.

use std::sync::Arc;

use slidegate::{Cost, Decision, Error, Event, Limiter, Quota, Receipt, Tier, Usage};
use slidegate_redis::{RedisLimiter, RedisTier};

/// The state of one policy, or of all descriptors of one unit.
#[derive(Debug, Clone)]
pub enum Pool {
    /// In this process.
    Memory(Arc<Limiter>),
    /// Shared.
    Redis(Arc<RedisLimiter>),
}

/// Quotas, ready to be used with a pool.
#[derive(Debug, Clone)]
pub(crate) enum PoolTier {
    Memory(Tier),
    Redis(RedisTier),
}

impl Pool {
    /// The quotas it was made with.
    pub(crate) fn quotas(&self) -> &[Quota] {
        match self {
            Self::Memory(limiter) => limiter.policy().quotas(),
            Self::Redis(limiter) => limiter.policy().quotas(),
        }
    }

    pub(crate) fn tier(&self, quotas: &[Quota]) -> Result<PoolTier, Error> {
        Ok(match self {
            Self::Memory(limiter) => PoolTier::Memory(limiter.tier(quotas)?),
            Self::Redis(limiter) => PoolTier::Redis(limiter.tier(quotas)?),
        })
    }

    /// Decides, and takes if allowed. In memory it never waits.
    #[inline]
    pub(crate) async fn check(&self, key: &[u8], tier: Option<&PoolTier>, cost: Cost) -> Decision {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                limiter.check_tier(key, tier, cost)
            }
            (Self::Memory(limiter), _) => limiter.check_cost(key, cost),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.check_tier(key, tier, cost).await
            }
            (Self::Redis(limiter), _) => limiter.check_cost(key, cost).await,
        }
    }

    pub(crate) async fn peek(
        &self,
        key: &[u8],
        tier: Option<&PoolTier>,
        cost: Cost,
    ) -> Result<Decision, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                Ok(limiter.peek_tier(key, tier, cost))
            }
            (Self::Memory(limiter), _) => Ok(limiter.peek(key, cost)),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.peek_tier(key, tier, cost).await
            }
            (Self::Redis(limiter), _) => limiter.peek(key, cost).await,
        }
    }

    /// A receipt whose parts have travelled.
    pub(crate) fn receipt(&self, key: &[u8], units: u64, tick: u64, epoch: u16) -> Receipt {
        match self {
            Self::Memory(limiter) => limiter.receipt(key, units, tick, epoch),
            // Redis finds the units by the key.
            Self::Redis(_) => Receipt::new(0, tick, units, epoch),
        }
    }

    pub(crate) async fn refund(
        &self,
        key: &[u8],
        tier: Option<&PoolTier>,
        receipt: Receipt,
    ) -> Result<u64, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                Ok(limiter.refund_tier(receipt, tier))
            }
            (Self::Memory(limiter), _) => Ok(limiter.refund(receipt)),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.refund_tier(key, receipt, tier).await
            }
            (Self::Redis(limiter), _) => limiter.refund(key, receipt).await,
        }
    }

    pub(crate) async fn settle(
        &self,
        key: &[u8],
        tier: Option<&PoolTier>,
        receipt: Receipt,
        actual: u64,
    ) -> Result<u64, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                Ok(limiter.settle_tier(receipt, actual, tier))
            }
            (Self::Memory(limiter), _) => Ok(limiter.settle(receipt, actual)),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.settle_tier(key, receipt, actual, tier).await
            }
            (Self::Redis(limiter), _) => limiter.settle(key, receipt, actual).await,
        }
    }

    pub(crate) async fn forgive(
        &self,
        key: &[u8],
        tier: Option<&PoolTier>,
        units: u64,
    ) -> Result<u64, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                Ok(limiter.forgive_tier(key, units, tier))
            }
            (Self::Memory(limiter), _) => Ok(limiter.forgive(key, units)),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.forgive(key, Some(tier), units).await
            }
            (Self::Redis(limiter), _) => limiter.forgive(key, None, units).await,
        }
    }

    pub(crate) async fn usage(&self, key: &[u8], tier: Option<&PoolTier>) -> Result<Usage, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                Ok(limiter.usage_tier(key, tier))
            }
            (Self::Memory(limiter), _) => Ok(limiter.usage(key)),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.usage_tier(key, tier).await
            }
            (Self::Redis(limiter), _) => limiter.usage(key).await,
        }
    }

    pub(crate) async fn history(
        &self,
        key: &[u8],
        tier: Option<&PoolTier>,
    ) -> Result<Vec<Event>, Error> {
        match (self, tier) {
            (Self::Memory(limiter), Some(PoolTier::Memory(tier))) => {
                limiter.history_tier(key, tier)
            }
            (Self::Memory(limiter), _) => limiter.history(key),
            (Self::Redis(limiter), Some(PoolTier::Redis(tier))) => {
                limiter.history_tier(key, tier).await
            }
            (Self::Redis(limiter), _) => limiter.history(key).await,
        }
    }

    pub(crate) async fn reset(&self, key: &[u8]) -> Result<bool, Error> {
        match self {
            Self::Memory(limiter) => Ok(limiter.reset(key)),
            Self::Redis(limiter) => limiter.reset(key).await,
        }
    }
}
