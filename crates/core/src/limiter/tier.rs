//! Other quotas for some keys.

use core::any::Any;
use core::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

use crate::error::{Error, ErrorKind};
use crate::policy::{Policy, check_quotas};
use crate::quota::Quota;

/// Quotas that some keys have instead of the policy's: see [`Limiter::tier`](crate::Limiter::tier).
///
/// A tier belongs to the store that created it. Any other store refuses it with an error.
///
/// ```
/// use slidegate::{Limiter, Policy, Quota};
///
/// let limiter = Limiter::new(Policy::new("api", Quota::per_minute(10))?)?;
/// let gold = limiter.tier(&[Quota::per_minute(1000)])?;
///
/// assert_eq!(limiter.check("alice").remaining(), 9);
/// assert_eq!(limiter.with(&gold)?.check("bob").remaining(), 999);
///
/// let other = Limiter::new(Policy::new("search", Quota::per_minute(10))?)?;
/// assert!(other.with(&gold).is_err());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Tier {
    owner: StoreId,
    quotas: Arc<[Quota]>,
    /// The result of the store's preparation.
    prepared: Arc<dyn Any + Send + Sync>,
}

/// Identifies a store within the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StoreId(u64);

impl StoreId {
    /// Creates an id that no other store has.
    pub fn unique() -> Self {
        // Plain atomics, because the concurrency checker need not examine this counter.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

impl Tier {
    /// Creates a tier of the store `owner`, with the result of `prepare`, which [`Tier::prepared`]
    /// returns. For implementations of [`Store`](crate::Store).
    ///
    /// # Errors
    ///
    /// Returns an error if there is no quota or more than `policy` has, or if `prepare` fails.
    /// Algorithms other than the log need the same number of quotas as the policy.
    pub fn new<P: Any + Send + Sync>(
        owner: StoreId,
        policy: &Policy,
        quotas: &[Quota],
        prepare: impl FnOnce() -> Result<P, Error>,
    ) -> Result<Self, Error> {
        Self::check(policy, quotas)?;
        Ok(Self { owner, quotas: quotas.into(), prepared: Arc::new(prepare()?) })
    }

    /// Checks that quotas can replace those of a policy. For implementations of
    /// [`Store`](crate::Store).
    ///
    /// # Errors
    ///
    /// The same as [`Tier::new`].
    pub fn check(policy: &Policy, quotas: &[Quota]) -> Result<(), Error> {
        let (given, most) = (quotas.len(), policy.quotas().len());
        let log = policy.algorithm().keeps_entries();
        if given == 0 || given > most || (given < most && !log) {
            let message = format!(
                "a tier of {given} quotas does not fit policy {:?} of {most}: with {:?} use {}",
                policy.name(),
                policy.algorithm(),
                if log { "as many or fewer" } else { "as many" },
            );
            return Err(Error::new(ErrorKind::Policy, message));
        }
        check_quotas(quotas)
    }

    /// Returns the quotas.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Returns the prepared value of the store `owner`. For implementations of
    /// [`Store`](crate::Store).
    ///
    /// # Errors
    ///
    /// Returns an error if another store created the tier.
    #[inline]
    pub fn prepared<P: Any>(&self, owner: StoreId) -> Result<&P, Error> {
        match self.prepared.downcast_ref() {
            Some(prepared) if self.owner == owner => Ok(prepared),
            _ => Err(foreign()),
        }
    }
}

#[cold]
fn foreign() -> Error {
    let message = "the tier belongs to another limiter: create one with this limiter's tier()";
    Error::new(ErrorKind::Setting, message)
}
