//! How many units one request asks for.

use core::fmt;
use core::num::NonZeroU64;

use crate::error::{Error, ErrorKind};
use crate::quota::Quota;

/// Units one request asks for: never zero, at most 2^53 - 1.
///
/// A cost above a quota's limit is not an error. It is denied, with a `retry_after` of `None`,
/// because no wait would help.
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

    /// A cost of `units`.
    ///
    /// # Errors
    ///
    /// When `units` is zero or above 2^53 - 1. To look without taking, use
    /// [`Limiter::peek`](crate::Limiter::peek).
    pub fn new(units: u64) -> Result<Self, Error> {
        match NonZeroU64::new(units) {
            Some(units) if units.get() <= Quota::LIMIT_MAX => Ok(Self(units)),
            _ => Err(Error::out_of_range(ErrorKind::Cost, "cost", units, "1 to 9007199254740991")),
        }
    }

    /// The units.
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
