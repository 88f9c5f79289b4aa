//! A clock for tests.

use core::time::Duration;

use pyo3::prelude::*;
use slidegate::Clock as _;

use crate::time::Seconds;

/// A clock that changes only when a test sets or advances it.
#[pyclass(frozen, module = "slidegate")]
#[derive(Debug)]
pub(crate) struct ManualClock(pub(crate) slidegate::ManualClock);

#[pymethods]
impl ManualClock {
    /// Creates a clock that returns this number of seconds since the epoch.
    #[new]
    #[pyo3(signature = (now = Seconds(START)))]
    fn new(now: Seconds) -> Self {
        Self(slidegate::ManualClock::new(now.0))
    }

    /// Advances the clock by a number of seconds.
    fn advance(&self, by: Seconds) {
        self.0.advance(by.0);
    }

    /// Sets the clock to a number of seconds since the epoch, which may be earlier.
    fn set(&self, now: Seconds) {
        self.0.set(now.0);
    }

    /// Returns the seconds since the epoch.
    fn now(&self) -> f64 {
        Duration::from_nanos(self.0.now()).as_secs_f64()
    }
}

/// The time of a clock by default, so that tests have the same times in every run.
const START: Duration = Duration::from_secs(1_700_000_000);
