//! The cost of a request.

use core::fmt;
use core::num::NonZeroU64;

use crate::error::{Error, ErrorKind};
use crate::quota::Quota;

/// The number of units that a request takes: at least 1, at most 2^53 - 1.
///
/// A cost above a quota's limit is not an error. It is denied with
/// [`RetryAfter::Never`](crate::RetryAfter::Never).
///
/// ```
/// use slidegate::Cost;
///
/// assert_eq!(Cost::new(5)?.get(), 5);
/// assert!(Cost::new(0).is_err());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cost(NonZeroU64);

impl Cost {
    /// The cost of an ordinary request.
    pub const ONE: Self = Self(NonZeroU64::MIN);

    /// One unit more than the largest limit.
    const ABOVE_LIMITS: Self = Self(NonZeroU64::MIN.saturating_add(Quota::LIMIT_MAX));

    /// Creates a cost of `units`.
    ///
    /// # Errors
    ///
    /// Returns an error if `units` is zero or above 2^53 - 1. To check without taking units, use
    /// [`Limiter::peek`](crate::Limiter::peek).
    pub fn new(units: u64) -> Result<Self, Error> {
        match NonZeroU64::new(units) {
            Some(units) if units.get() <= Quota::LIMIT_MAX => Ok(Self(units)),
            _ => Err(Error::out_of_range(ErrorKind::Cost, "cost", units, "1 to 9007199254740991")),
        }
    }

    /// Creates a cost of `units`, where 0 counts as 1. More than 2^53 - 1 units become 2^53, which
    /// no limit admits.
    ///
    /// Use it for constants and for external numbers: a request of 0 units still takes one,
    /// and one that is too large is denied with [`RetryAfter::Never`](crate::RetryAfter::Never).
    ///
    /// ```
    /// use slidegate::Cost;
    ///
    /// const UPLOAD: Cost = Cost::saturating(5);
    /// assert_eq!(UPLOAD.get(), 5);
    /// assert_eq!(Cost::saturating(0), Cost::ONE);
    /// ```
    pub const fn saturating(units: u64) -> Self {
        match NonZeroU64::new(units) {
            Some(units) if units.get() <= Quota::LIMIT_MAX => Self(units),
            Some(_) => Self::ABOVE_LIMITS,
            None => Self::ONE,
        }
    }

    /// Returns the units.
    pub const fn get(self) -> u64 {
        self.0.get()
    }
}

impl TryFrom<u64> for Cost {
    type Error = Error;

    fn try_from(units: u64) -> Result<Self, Error> {
        Self::new(units)
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
