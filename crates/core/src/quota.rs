//! A limit and its window.

use core::fmt;
use core::str::FromStr;
use core::time::Duration;

use crate::duration::{format_duration, parse_duration};
use crate::error::{Error, ErrorKind};

/// At most `limit` units in any interval of length `window`.
///
/// The limit is at most 2^53 - 1. A limit of 0 bans: every check is denied with
/// [`RetryAfter::Never`](crate::RetryAfter::Never). The window is longer than zero and at most ten
/// years.
///
/// ```
/// use slidegate::Quota;
/// use std::time::Duration;
///
/// // At most 100 in any 60 seconds.
/// const API: Quota = Quota::per_minute(100);
/// assert_eq!(API.limit(), 100);
/// assert_eq!(API.window(), Duration::from_secs(60));
///
/// // Other limits and windows are checked.
/// let five_minutes = Quota::new(2000, Duration::from_secs(300))?;
/// assert_eq!(five_minutes.limit(), 2000);
///
/// // As text: a limit, and a window by its name or as a duration.
/// assert_eq!("100/minute".parse(), Ok(API));
/// assert_eq!("2000/5m".parse(), Ok(five_minutes));
/// assert_eq!(five_minutes.to_string(), "2000/5m");
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quota {
    limit: u64,
    window: Duration,
}

/// Windows with a name, and their seconds.
const NAMED_WINDOWS: [(&str, u64); 5] =
    [("second", 1), ("minute", 60), ("hour", 3600), ("day", 86_400), ("week", 604_800)];

impl Quota {
    /// The largest limit and cost, 2^53 - 1. Above it, a Redis script could not count exactly.
    pub const LIMIT_MAX: u64 = (1 << 53) - 1;

    /// The longest window, ten years.
    pub const WINDOW_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

    /// Creates a quota of `limit` units in any interval of length `window`. A limit of 0 bans.
    ///
    /// # Errors
    ///
    /// Returns an error if the limit is above 2^53 - 1, or the window is zero or above ten years.
    pub fn new(limit: u64, window: Duration) -> Result<Self, Error> {
        if limit > Self::LIMIT_MAX {
            let allowed = "0 to 9007199254740991";
            return Err(Error::out_of_range(ErrorKind::Limit, "limit", limit, allowed));
        }
        if window.is_zero() || window > Self::WINDOW_MAX {
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

    /// Creates a quota of `limit` units in any second.
    pub const fn per_second(limit: u32) -> Self {
        Self::per(limit, 1)
    }

    /// Creates a quota of `limit` units in any minute.
    pub const fn per_minute(limit: u32) -> Self {
        Self::per(limit, 60)
    }

    /// Creates a quota of `limit` units in any hour.
    pub const fn per_hour(limit: u32) -> Self {
        Self::per(limit, 3600)
    }

    /// Creates a quota of `limit` units in any 24 hours.
    pub const fn per_day(limit: u32) -> Self {
        Self::per(limit, 24 * 3600)
    }

    const fn per(limit: u32, seconds: u64) -> Self {
        Self { limit: limit as u64, window: Duration::from_secs(seconds) }
    }

    /// Returns the maximum number of units in any interval of one window.
    pub const fn limit(&self) -> u64 {
        self.limit
    }

    /// Returns the time for which a unit counts.
    pub const fn window(&self) -> Duration {
        self.window
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |seconds| Duration::from_secs(seconds);
        match NAMED_WINDOWS.iter().find(|(_, length)| seconds(*length) == self.window) {
            Some((name, _)) => write!(f, "{}/{name}", self.limit),
            None => write!(f, "{}/{}", self.limit, format_duration(self.window)),
        }
    }
}

impl FromStr for Quota {
    type Err = Error;

    /// Parses a limit and a window: `100/minute`, `5/s`, `10_000/1h` or `20/10s`.
    fn from_str(text: &str) -> Result<Self, Error> {
        let parts = text.split_once('/').and_then(|(limit, window)| {
            Some((limit.trim().replace('_', "").parse().ok()?, parse_window(window.trim())?))
        });
        let Some((limit, window)) = parts else {
            let message = format!(
                "invalid quota {text:?}: use a limit and a window, such as 100/minute, 5/s, \
                 1000/1h or 20/10s"
            );
            return Err(Error::new(ErrorKind::Policy, message));
        };
        Self::new(limit, window)
    }
}

fn parse_window(text: &str) -> Option<Duration> {
    if let Some((_, seconds)) = NAMED_WINDOWS.iter().find(|(name, _)| *name == text) {
        return Some(Duration::from_secs(*seconds));
    }
    // `5/s` is 5 per second.
    if text.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return parse_duration(&format!("1{text}")).ok();
    }
    parse_duration(text).ok()
}

#[cfg(feature = "serde")]
impl serde::Serialize for Quota {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for Quota {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}
