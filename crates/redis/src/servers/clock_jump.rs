//! Notices when a server's clock jumps against ours.

use core::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The last reading of a server's clock, and when it was read on ours, which is monotonic.
#[derive(Debug)]
pub(crate) struct ClockJumpDetector {
    tolerance: Duration,
    last: Mutex<Option<ClockReading>>,
}

/// A server's time that was read at some moment between two of ours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClockReading {
    pub(crate) server: Duration,
    pub(crate) sent: Instant,
    pub(crate) received: Instant,
}

impl ClockJumpDetector {
    pub(crate) fn new(tolerance: Duration) -> Self {
        Self { tolerance, last: Mutex::new(None) }
    }

    /// Records a reading. Returns `true` if the server's clock has jumped by more than the tolerance
    /// since the reading before. The duration of the calls is never taken for a jump.
    pub(crate) fn has_jumped(&self, reading: ClockReading) -> bool {
        let mut last = self.last.lock();
        let Some(before) = *last else {
            *last = Some(reading);
            return false;
        };
        // Calls overlap: an answer that was sent for earlier says nothing new.
        if reading.sent < before.sent {
            return false;
        }
        *last = Some(reading);
        let least = reading.sent.saturating_duration_since(before.received);
        let most = reading.received.saturating_duration_since(before.sent);
        reading.server + self.tolerance < before.server + least
            || reading.server > before.server + most + self.tolerance
    }
}

#[cfg(test)]
mod tests;
