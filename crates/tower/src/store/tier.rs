//! Other quotas for some keys, in whatever store.

use slidegate::{Quota, Tier};

/// A tier of a store.
#[derive(Debug, Clone)]
pub(crate) enum StoreTier {
    Memory(Tier),
    #[cfg(feature = "redis")]
    Redis(slidegate_redis::RedisTier),
}

impl StoreTier {
    pub(crate) fn quotas(&self) -> &[Quota] {
        match self {
            Self::Memory(tier) => tier.quotas(),
            #[cfg(feature = "redis")]
            Self::Redis(tier) => tier.quotas(),
        }
    }
}
