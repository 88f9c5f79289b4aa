//! So many units in so much time.

use core::time::Duration;

use crate::error::{Error, ErrorKind};

/// The largest limit and cost: above 2^53 - 1 a Redis script could not count exactly.
pub(crate) const LIMIT_MAX: u64 = (1 << 53) - 1;

/// The longest window, ten years.
pub(crate) const WINDOW_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// At most `limit` units in any stretch of `window`.
///
/// Neither part is ever zero; the limit is at most 2^53 - 1 and the window at most ten years.
///
/// ```
/// use slidegate::Quota;
/// use std::time::Duration;
///
/// // One hundred in any sixty seconds, not "one every hundred minutes".
/// let quota = Quota::per_minute(100)?;
/// assert_eq!(quota.limit(), 100);
/// assert_eq!(quota.window(), Duration::from_secs(60));
///
/// let five_minutes = Quota::new(2000, Duration::from_secs(300))?;
/// assert_eq!(five_minutes.limit(), 2000);
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    window: Duration,
}

impl Quota {
    /// `limit` units in any stretch of `window`.
    ///
    /// # Errors
    ///
    /// When the limit is zero or above 2^53 - 1, or the window is zero or above ten years.
    pub fn new(limit: u64, window: Duration) -> Result<Self, Error> {
        if limit == 0 || limit > LIMIT_MAX {
            let allowed = "1 to 9007199254740991";
            return Err(Error::out_of_range(ErrorKind::Limit, "limit", limit, allowed));
        }
        if window.is_zero() || window > WINDOW_MAX {
            let allowed = "more than zero, at most ten years";
            return Err(Error::out_of_range(
                ErrorKind::Window,
                "window",
                format_args!("{window:?}"),
                allowed,
            ));
        }
        Ok(Self { limit, window })
    }

    /// `limit` units in any second.
    ///
    /// # Errors
    ///
    /// When the limit is zero or above 2^53 - 1.
    pub fn per_second(limit: u64) -> Result<Self, Error> {
        Self::new(limit, Duration::from_secs(1))
    }

    /// `limit` units in any minute.
    ///
    /// # Errors
    ///
    /// When the limit is zero or above 2^53 - 1.
    pub fn per_minute(limit: u64) -> Result<Self, Error> {
        Self::new(limit, Duration::from_secs(60))
    }

    /// `limit` units in any hour.
    ///
    /// # Errors
    ///
    /// When the limit is zero or above 2^53 - 1.
    pub fn per_hour(limit: u64) -> Result<Self, Error> {
        Self::new(limit, Duration::from_secs(3600))
    }

    /// `limit` units in any stretch of 24 hours.
    ///
    /// # Errors
    ///
    /// When the limit is zero or above 2^53 - 1.
    pub fn per_day(limit: u64) -> Result<Self, Error> {
        Self::new(limit, Duration::from_secs(24 * 3600))
    }

    /// Units that any stretch of the window may contain.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// How long a unit counts.
    pub const fn window(&self) -> Duration {
        self.window
    }
}
