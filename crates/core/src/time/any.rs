//! The clock of a limiter: one of the two built-in clocks, without a virtual call, or any other.

use core::time::Duration;
use std::sync::Arc;

use super::cycle_clock::CycleClock;
use super::monotonic::Cycles;
use super::tick::NANOS_MAX;
use super::{BootTime, Clock, ManualClock, MonotonicClock};

#[derive(Debug, Clone)]
pub(crate) enum AnyClock {
    Monotonic(Arc<MonotonicClock>),
    Manual(ManualClock),
    Other(Arc<dyn Clock>),
}

impl AnyClock {
    #[inline]
    pub(crate) fn read(&self) -> Reading<'_> {
        match self {
            Self::Monotonic(clock) => clock.read(),
            // It never shows more than `NANOS_MAX`.
            Self::Manual(clock) => Reading::Nanos(clock.now()),
            Self::Other(clock) => Reading::Nanos(clock.now().min(NANOS_MAX)),
        }
    }

    pub(crate) fn lag(&self) -> u64 {
        match self {
            Self::Monotonic(clock) => clock.lag(),
            Self::Manual(clock) => clock.lag(),
            Self::Other(clock) => clock.lag(),
        }
    }
}

impl AnyClock {
    /// Returns the time since boot, if this clock runs with it.
    pub(crate) fn boot_time(&self) -> Option<BootTime> {
        matches!(self, Self::Monotonic(_)).then(BootTime::now).flatten()
    }

    /// Makes a monotonic clock show `since_epoch` now. Other clocks stay as they are.
    pub(crate) fn set(&mut self, since_epoch: Duration) {
        if let Self::Monotonic(clock) = self {
            *self = clock.starting_at(since_epoch).into();
        }
    }
}

impl From<MonotonicClock> for AnyClock {
    fn from(clock: MonotonicClock) -> Self {
        Self::Monotonic(Arc::new(clock))
    }
}

/// A moment, taken at once and made nanoseconds of later.
///
/// An atomic operation waits until all that was begun before it is done. So a check takes the
/// reading first, then the lock, and calculates while the memory behind the lock is on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading<'a> {
    /// Nanoseconds since the Unix epoch, at most [`NANOS_MAX`].
    Nanos(u64),
    Count(&'a CycleClock<Cycles>, u64),
}

impl Reading<'_> {
    /// Nanoseconds since the Unix epoch, at most [`NANOS_MAX`].
    #[inline]
    pub(crate) fn nanos(self) -> u64 {
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Count(counter, count) => counter.nanos(count).min(NANOS_MAX),
        }
    }
}
