//! Counts that are shared through Redis.

use std::sync::Arc;

use slidegate::{Cost, Decision, Error, Receipt};
use slidegate_redis::RedisLimiter;

use super::{AnyStore, Place, StoreTier};

pub(super) async fn check(
    limiter: &RedisLimiter,
    key: &[u8],
    tier: Option<&StoreTier>,
    cost: Cost,
) -> Decision {
    match tier {
        Some(StoreTier::Redis(tier)) => limiter.check_tier(key, tier, cost).await,
        // A tier is made by the store that it is used with.
        _ => limiter.check_cost(key, cost).await,
    }
}

pub(super) async fn refund(
    limiter: &RedisLimiter,
    key: &[u8],
    tier: Option<&StoreTier>,
    receipt: Receipt,
) -> Result<u64, Error> {
    match tier {
        Some(StoreTier::Redis(tier)) => limiter.refund_tier(key, receipt, tier).await,
        _ => limiter.refund(key, receipt).await,
    }
}

impl From<RedisLimiter> for AnyStore {
    fn from(limiter: RedisLimiter) -> Self {
        Self(Place::Redis(Arc::new(limiter)))
    }
}

impl From<Arc<RedisLimiter>> for AnyStore {
    fn from(limiter: Arc<RedisLimiter>) -> Self {
        Self(Place::Redis(limiter))
    }
}
