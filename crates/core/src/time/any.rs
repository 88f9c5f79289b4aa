//! The clock of a limiter: the two we know without a virtual call, or anybody's.

use std::sync::Arc;

use super::reading::Reading;
use super::tick::NANOS_MAX;
use super::{Clock, ManualClock, MonotonicClock};

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

impl From<MonotonicClock> for AnyClock {
    fn from(clock: MonotonicClock) -> Self {
        Self::Monotonic(Arc::new(clock))
    }
}

impl From<ManualClock> for AnyClock {
    fn from(clock: ManualClock) -> Self {
        Self::Manual(clock)
    }
}
