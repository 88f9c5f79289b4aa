//! Detects steps of a server's clock against the local clock.

use core::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last reading of a server's clock, and its time on the local, monotonic clock.
#[derive(Debug)]
pub(crate) struct ClockJumpDetector {
    tolerance: Duration,
    last: Mutex<Option<ClockReading>>,
}

/// A server time that was read between two local times.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) server: Duration,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

/// How far a server's clock has stepped, in either direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClockStep {
    /// Within the tolerance. The step is at least this large, and larger by at most the duration of
    /// the two calls.
    Small(Duration),
    /// Beyond the tolerance.
    Jump,
}

/// The smallest step that is reported.
const SMALLEST: Duration = Duration::from_millis(5);

/// The maximum drift, a thousandth: two clocks that are being slewed drift by up to this part of
/// the time between two readings, without a step.
const DRIFT: u32 = 1000;

impl ClockJumpDetector {
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self { tolerance, last: Mutex::new(None) }
    }

    /// Records a reading. Returns the step of the server's clock since the reading before, or
    /// `None` if the duration of the calls or drift can explain the difference.
    pub(crate) fn step(&self, reading: ClockReading) -> Option<ClockStep> {
        let mut last = self.last.lock();
        let Some(before) = *last else {
            *last = Some(reading);
            return None;
        };
        // Calls overlap: the reply to an earlier call is outdated.
        if reading.sent < before.sent {
            return None;
        }
        *last = Some(reading);
        drop(last);
        let least = reading.sent.saturating_duration_since(before.received);
        let most = reading.received.saturating_duration_since(before.sent);
        let ahead = reading.server.saturating_sub(before.server + most);
        let back = (before.server + least).saturating_sub(reading.server);
        let size = ahead.max(back);
        if size > self.tolerance {
            return Some(ClockStep::Jump);
        }
        (size > SMALLEST + most / DRIFT).then_some(ClockStep::Small(size))
    }
}

#[cfg(test)]
mod tests;
