//! What a clock showed.

use super::counter::Counter;
use super::monotonic::Cycles;
use super::tick::NANOS_MAX;

/// A moment, taken at once and made nanoseconds of later.
///
/// An atomic operation waits until all that was begun before it is done. So a check takes the
/// reading first, then the lock, and calculates while the memory behind the lock is on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reading<'a> {
    /// Nanoseconds since the Unix epoch, at most [`NANOS_MAX`].
    Nanos(u64),
    Count(&'a Counter<Cycles>, u64),
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
