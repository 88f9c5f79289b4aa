//! Where a gate's counts live.

mod erased;
#[cfg(feature = "redis")]
mod redis;
mod tier;

use core::fmt;
use std::sync::Arc;

use slidegate::{
    Cost, Decision, Error, ErrorKind, FailureMode, Limiter, Mode, Outcome, Policy, Quota, Receipt,
    Store,
};

pub(crate) use tier::StoreTier;

use erased::{Erased, WithLocal};

/// Where a gate's counts live: in this process, in Redis, or anywhere that implements
/// [`slidegate::Store`].
///
/// Made from a [`Limiter`], an `Arc` of one, a `RedisLimiter` (feature `redis`) or, by
/// [`AnyStore::new`], any store.
#[derive(Clone)]
pub struct AnyStore(pub(crate) Place);

#[derive(Clone)]
pub(crate) enum Place {
    Memory(Arc<Limiter>),
    #[cfg(feature = "redis")]
    Redis(Arc<slidegate_redis::RedisLimiter>),
    Other(Arc<dyn Erased>),
}

impl AnyStore {
    /// Any store. Its own deadline is the store's to keep.
    ///
    /// When it fails, the policy's [`FailureMode`] answers; for [`FailureMode::Local`] a limiter
    /// of the same policy is kept in this process.
    ///
    /// # Errors
    ///
    /// When the policy does not fit a limiter in this process, which only `Local` needs.
    pub fn new<S: Store + 'static>(store: S) -> Result<Self, Error> {
        Ok(Self(Place::Other(Arc::new(WithLocal::new(store)?))))
    }

    /// The policy.
    #[inline]
    pub fn policy(&self) -> &Policy {
        match &self.0 {
            Place::Memory(limiter) => limiter.policy(),
            #[cfg(feature = "redis")]
            Place::Redis(limiter) => limiter.policy(),
            Place::Other(store) => store.policy(),
        }
    }

    /// Whether keys stay in this process, where they are not even stored.
    pub(crate) fn is_memory(&self) -> bool {
        matches!(self.0, Place::Memory(_))
    }

    /// Decides, and takes if allowed. Always answers: if the store fails, by its failure mode.
    pub(crate) async fn check(&self, key: &[u8], tier: Option<&StoreTier>, cost: Cost) -> Decision {
        match &self.0 {
            Place::Memory(limiter) => check_memory(limiter, key, tier, cost),
            #[cfg(feature = "redis")]
            Place::Redis(limiter) => redis::check(limiter, key, tier, cost).await,
            Place::Other(store) => store.check(key, cost).await,
        }
    }

    /// Gives back the very units of a receipt, by the quotas under which they were taken; how many
    /// there were to give.
    pub(crate) async fn refund(
        &self,
        key: &[u8],
        tier: Option<&StoreTier>,
        receipt: Receipt,
    ) -> u64 {
        match &self.0 {
            Place::Memory(limiter) => refund_memory(limiter, tier, receipt),
            // What cannot be given back counts until its window has passed: the safe side.
            #[cfg(feature = "redis")]
            Place::Redis(limiter) => redis::refund(limiter, key, tier, receipt).await.unwrap_or(0),
            Place::Other(store) => store.refund(key, receipt).await.unwrap_or(0),
        }
    }

    /// Other quotas for some keys.
    pub(crate) fn tier(&self, quotas: &[Quota]) -> Result<StoreTier, Error> {
        match &self.0 {
            Place::Memory(limiter) => Ok(StoreTier::Memory(limiter.tier(quotas)?)),
            #[cfg(feature = "redis")]
            Place::Redis(limiter) => Ok(StoreTier::Redis(limiter.tier(quotas)?)),
            Place::Other(_) => Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "the store of policy {:?} has no tiers: use a Limiter or a RedisLimiter",
                    self.policy().name()
                ),
            )),
        }
    }

    /// Whether waiting here is first come, first served.
    pub(crate) fn line(&self) -> Option<&Arc<Limiter>> {
        match &self.0 {
            Place::Memory(limiter) => {
                limiter.policy().algorithm().supports_future_entries().then_some(limiter)
            }
            #[cfg(feature = "redis")]
            Place::Redis(_) => None,
            Place::Other(_) => None,
        }
    }
}

#[inline]
pub(crate) fn check_memory(
    limiter: &Limiter,
    key: &[u8],
    tier: Option<&StoreTier>,
    cost: Cost,
) -> Decision {
    match tier {
        None => limiter.check_cost(key, cost),
        Some(StoreTier::Memory(tier)) => limiter.check_tier(key, tier, cost),
        // A tier is made by the store that it is used with.
        #[cfg(feature = "redis")]
        Some(StoreTier::Redis(_)) => limiter.check_cost(key, cost),
    }
}

fn refund_memory(limiter: &Limiter, tier: Option<&StoreTier>, receipt: Receipt) -> u64 {
    match tier {
        Some(StoreTier::Memory(tier)) => limiter.refund_tier(receipt, tier),
        _ => limiter.refund(receipt),
    }
}

/// What a policy answers when it cannot be judged.
pub(crate) fn failed(policy: &Policy) -> Decision {
    let outcome = match policy.failure_mode() {
        FailureMode::Deny => Outcome::Deny,
        FailureMode::Allow | FailureMode::Local => Outcome::Allow,
    };
    let decision = Decision::new(outcome, &[], None).into_degraded();
    if policy.mode() == Mode::Shadow { decision.into_shadow() } else { decision }
}

impl From<Limiter> for AnyStore {
    fn from(limiter: Limiter) -> Self {
        Self(Place::Memory(Arc::new(limiter)))
    }
}

impl From<Arc<Limiter>> for AnyStore {
    fn from(limiter: Arc<Limiter>) -> Self {
        Self(Place::Memory(limiter))
    }
}

impl fmt::Debug for AnyStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.0 {
            Place::Memory(_) => "memory",
            #[cfg(feature = "redis")]
            Place::Redis(_) => "redis",
            Place::Other(_) => "other",
        };
        write!(f, "AnyStore({place}, {:?})", self.policy().name())
    }
}
