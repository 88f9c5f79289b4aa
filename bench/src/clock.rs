//! The only place that reads the machine's clocks.

use core::time::Duration;
use std::time::{Instant, SystemTime};

use rustix::time::{ClockId, clock_gettime};

/// Returns the current time, for timing rounds.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// Returns the wall-clock time, for peers that take it as an argument or read it on every check.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the peers' own way of reading the time is measured")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}

/// Returns the processor time of this thread.
pub(crate) fn thread_cpu() -> Duration {
    // Neither is ever below zero, and nanoseconds are below a thousand million.
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}
