//! A clock for tests.

use core::time::Duration;
use std::sync::Arc;

use super::Clock;
use super::tick::NANOS_MAX;
use crate::sync::atomic::{AtomicU64, Ordering};

/// A clock that changes only when it is set or advanced.
///
/// Clones share one time, so a test keeps one and passes another to the limiter.
///
/// ```
/// use slidegate::{Limiter, ManualClock, Policy, Quota};
/// use std::time::Duration;
///
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let policy = Policy::new("demo", Quota::per_minute(1))?;
/// let limiter = Limiter::builder(policy).clock(clock.clone()).build()?;
///
/// assert!(limiter.check("alice").is_allowed());
/// clock.advance(Duration::from_millis(59_999));
/// assert!(!limiter.check("alice").is_allowed());
/// clock.advance(Duration::from_millis(1));
/// assert!(limiter.check("alice").is_allowed());
/// # Ok::<(), slidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Creates a clock that returns `since_epoch`, at most 146 years: the year 2116.
    pub fn new(since_epoch: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(nanos(since_epoch))))
    }

    /// Advances the clock.
    pub fn advance(&self, by: Duration) {
        // Several threads may advance at once. Each advances the time once.
        let by = nanos(by);
        let mut now = self.0.load(Ordering::Relaxed);
        while let Err(seen) = self.0.compare_exchange_weak(
            now,
            now.saturating_add(by).min(NANOS_MAX),
            Ordering::Relaxed,
            Ordering::Relaxed,
        ) {
            now = seen;
        }
    }

    /// Sets the clock to `since_epoch`, which may be earlier.
    pub fn set(&self, since_epoch: Duration) {
        self.0.store(nanos(since_epoch), Ordering::Relaxed);
    }
}

impl Clock for ManualClock {
    #[inline]
    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).map_or(NANOS_MAX, |nanos| nanos.min(NANOS_MAX))
}
