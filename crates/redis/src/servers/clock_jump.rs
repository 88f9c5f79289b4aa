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
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn reading(start: Instant, server_ms: u32, sent_ms: u32, received_ms: u32) -> ClockReading {
        ClockReading {
            server: 1_000_000 * MS + server_ms * MS,
            sent: start + sent_ms * MS,
            received: start + received_ms * MS,
        }
    }

    #[test]
    fn notices_jumps_both_ways_and_nothing_else() {
        let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
        assert!(!detector.has_jumped(reading(start, 0, 0, 1)));
        assert!(!detector.has_jumped(reading(start, 1000, 1000, 1001)), "an ordinary second");
        assert!(!detector.has_jumped(reading(start, 3000, 1500, 4000)), "a slow answer");
        assert!(
            !detector.has_jumped(reading(start, 4400, 4000, 4001)),
            "a jump within the tolerance"
        );
        assert!(detector.has_jumped(reading(start, 5102, 4100, 4101)), "a jump ahead");
        assert!(!detector.has_jumped(reading(start, 5202, 4200, 4201)), "reported once");
        assert!(detector.has_jumped(reading(start, 4202, 4300, 4301)), "a jump back");
    }

    #[test]
    fn answers_out_of_order_are_no_jump() {
        let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
        assert!(!detector.has_jumped(reading(start, 2000, 2000, 2001)));
        assert!(!detector.has_jumped(reading(start, 100, 100, 2002)));
        assert!(!detector.has_jumped(reading(start, 2100, 2100, 2101)));
    }
}
