//! A clock for tests.

use core::time::Duration;

use napi_derive::napi;
use slidegate::{Clock as _, ManualClock};

/// A clock that a test sets.
#[napi]
#[derive(Debug)]
pub struct NativeClock(pub(crate) ManualClock);

#[napi]
impl NativeClock {
    /// Creates a clock that returns `millis` since the epoch.
    #[napi(constructor, catch_unwind)]
    pub fn new(millis: f64) -> Self {
        Self(ManualClock::new(duration(millis)))
    }

    /// Sets the clock.
    #[napi(catch_unwind)]
    pub fn set(&self, millis: f64) {
        self.0.set(duration(millis));
    }

    /// Advances the clock.
    #[napi(catch_unwind)]
    pub fn advance(&self, millis: f64) {
        self.0.advance(duration(millis));
    }

    /// Returns the milliseconds since the epoch.
    #[napi(catch_unwind)]
    pub fn now(&self) -> f64 {
        millis(Duration::from_nanos(self.0.now()))
    }
}

/// Returns a duration of milliseconds. Whole milliseconds are exact. A negative number or NaN is
/// zero, and one that is too large is the maximum.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
pub(crate) fn duration(millis: f64) -> Duration {
    let whole = Duration::from_millis(millis as u64);
    whole.saturating_add(Duration::try_from_secs_f64(millis.fract() / 1e3).unwrap_or_default())
}

/// Returns the milliseconds of a duration. Whole milliseconds are exact.
#[expect(clippy::cast_precision_loss, reason = "durations of requests are far below 2^53 ms")]
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_secs() as f64 * 1e3 + f64::from(duration.subsec_nanos()) / 1e6
}
