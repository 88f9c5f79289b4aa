//! The only place that reads the machine's clocks.

use std::time::{Instant, SystemTime};

/// The moment, for timing rounds.
#[expect(clippy::disallowed_methods, reason = "a bench measures real time")]
pub(crate) fn instant() -> Instant {
    Instant::now()
}

/// The wall time, for peers that ask the caller for it or read it on every check.
#[inline]
#[expect(clippy::disallowed_methods, reason = "the peers' own way of telling time is measured")]
pub(crate) fn wall() -> SystemTime {
    SystemTime::now()
}
