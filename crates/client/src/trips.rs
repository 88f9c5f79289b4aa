//! How much round trips differ.

use core::time::Duration;

/// The longest and the shortest round trip of late.
///
/// Two requests that leave a window apart arrive closer together than that, if the second is
/// faster on its way. By how much is at most the difference kept here.
#[derive(Debug, Default)]
pub(crate) struct Trips {
    longest: Duration,
    shortest: Option<Duration>,
}

/// One trip moves the bounds by this part, so that an odd one is forgotten after some hundred.
const FORGET: u32 = 64;

impl Trips {
    pub(crate) fn note(&mut self, trip: Duration) {
        self.longest = trip.max(self.longest.saturating_sub(self.longest / FORGET));
        let shortest = self.shortest.unwrap_or(trip);
        self.shortest = Some(trip.min(shortest.saturating_add(shortest / FORGET)));
    }

    /// The longest trip of late.
    pub(crate) fn longest(&self) -> Duration {
        self.longest
    }

    /// By how much one trip may be longer than another.
    pub(crate) fn spread(&self) -> Duration {
        self.longest.saturating_sub(self.shortest.unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_odd_trip_counts_at_once_and_is_forgotten_in_time() {
        let millis = Duration::from_millis;
        let mut trips = Trips::default();
        assert_eq!(trips.spread(), Duration::ZERO);
        trips.note(millis(20));
        assert_eq!(trips.spread(), Duration::ZERO);
        trips.note(millis(220));
        assert_eq!(trips.spread() + millis(20) / FORGET, millis(200));
        for _ in 0..400 {
            trips.note(millis(20));
        }
        assert!(trips.spread() < millis(2), "{:?}", trips.spread());
        trips.note(Duration::MAX);
        assert!(trips.spread() > millis(1000));
    }
}
