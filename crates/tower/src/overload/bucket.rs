//! A bucket of units that refills evenly, with a queue of those who come too early.

/// A token bucket as one number: when it would be empty of what was taken.
///
/// Who comes while it is empty gets the next free place, each later than the last, or none if that
/// is too late.
#[derive(Debug, Clone, Default)]
pub(super) struct Bucket {
    /// Nanoseconds since the epoch.
    taken_until: u64,
}

/// Where in time a request has its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// After so many nanoseconds; zero is now.
    In(u64),
    /// Too late; it would be after so many nanoseconds.
    TooLate(u64),
}

impl Bucket {
    /// Takes a unit. `period` is the time a unit takes to come back, `burst` how much time's worth
    /// of units there may be; who would have to wait longer than `wait_max` takes none.
    pub(super) fn take(&mut self, now: u64, period: u64, burst: u64, wait_max: u64) -> Place {
        let until = self.taken_until.max(now).saturating_add(period);
        let wait = until.saturating_sub(now.saturating_add(burst));
        if wait > wait_max {
            return Place::TooLate(wait);
        }
        self.taken_until = until;
        Place::In(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_waits_grow_then_nobody_passes() {
        let mut bucket = Bucket::default();
        let now = 1_000_000;
        // Ten a thousand, three at once, two in the queue.
        let places: Vec<Place> = (0..7).map(|_| bucket.take(now, 100, 300, 200)).collect();
        assert_eq!(
            places,
            [
                Place::In(0),
                Place::In(0),
                Place::In(0),
                Place::In(100),
                Place::In(200),
                Place::TooLate(300),
                Place::TooLate(300),
            ]
        );
        // Who was sent away took nothing: a place is free one period later.
        assert_eq!(bucket.take(now + 100, 100, 300, 200), Place::In(200));
        assert_eq!(bucket.take(now + 10_000, 100, 300, 200), Place::In(0));
    }

    #[test]
    fn the_ends_of_time_do_no_harm() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(u64::MAX, u64::MAX, u64::MAX, 0), Place::In(0));
        assert_eq!(bucket.take(0, u64::MAX, 0, u64::MAX), Place::In(u64::MAX));
    }
}
