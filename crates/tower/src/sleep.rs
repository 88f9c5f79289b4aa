//! How to sleep: whoever waits needs a timer, and this crate has none of its own.

use core::fmt;
use core::future::Future;
use core::pin::Pin;
use core::time::Duration;
use std::sync::Arc;

/// How to sleep for some time: by a runtime's timer, or in a test by moving a clock.
///
/// ```
/// use std::time::Duration;
/// use slidegate::ManualClock;
/// use slidegate_tower::Sleep;
///
/// // Real time, by tokio (feature `tokio`).
/// let _sleep = Sleep::tokio();
///
/// // No time at all: sleeping moves the clock of the test.
/// let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
/// let _sleep = Sleep::new(move |time| {
///     clock.advance(time);
///     async {}
/// });
/// ```
#[derive(Clone)]
pub struct Sleep(Arc<dyn Fn(Duration) -> Sleeping + Send + Sync>);

pub(crate) type Sleeping = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Sleep {
    /// By a function whose future is ready when the time is over.
    pub fn new<F>(sleep: impl Fn(Duration) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = ()> + Send + 'static,
    {
        Self(Arc::new(move |time| Box::pin(sleep(time))))
    }

    /// By tokio's timers. Services are called inside of a runtime then.
    #[cfg(feature = "tokio")]
    pub fn tokio() -> Self {
        Self::new(tokio::time::sleep)
    }

    pub(crate) fn sleep(&self, time: Duration) -> Sleeping {
        (self.0)(time)
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sleep(..)")
    }
}
