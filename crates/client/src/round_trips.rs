//! The variation of round-trip times.

use core::time::Duration;

/// The longest and the shortest recent round trip.
///
/// If two requests are sent one window after the other, the second may arrive less than a window
/// later, by at most the difference of the two.
#[derive(Debug, Default)]
pub(crate) struct RoundTrips {
    longest: Duration,
    shortest: Option<Duration>,
}

/// Each trip moves the bounds by this fraction, so that an outlier loses its effect after a few
/// hundred trips.
const FORGET: u32 = 64;

impl RoundTrips {
    pub(crate) fn note(&mut self, trip: Duration) {
        self.longest = trip.max(self.longest.saturating_sub(self.longest / FORGET));
        let shortest = self.shortest.unwrap_or(trip);
        self.shortest = Some(trip.min(shortest.saturating_add(shortest / FORGET)));
    }

    /// Returns the longest recent trip.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// Returns the largest difference between two recent trips.
    pub(crate) fn spread(&self) -> Duration {
        self.longest.saturating_sub(self.shortest.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests;
