//! A token bucket that refills evenly, with a queue for requests that find it empty.

/// A token bucket as one number: the time at which the taken tokens are refilled.
///
/// A request that finds it empty gets the next free place, each later than the one before, or none
/// if that is too late.
#[derive(Debug, Clone, Default)]
pub(super) struct Bucket {
    /// In nanoseconds since the epoch.
    taken_until: u64,
}

/// The place of a request in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// After this number of nanoseconds. Zero is now.
    In(u64),
    /// Too late: the place would be after this number of nanoseconds.
    TooLate(u64),
}

impl Bucket {
    /// Takes a token. `period` is the time in which one token is refilled, and `burst` the time in
    /// which the bucket fills. A request that would have to wait longer than `wait_max` takes none.
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
    fn a_burst_passes_then_requests_wait_then_are_rejected() {
        let mut bucket = Bucket::default();
        let now = 1_000_000;
        // Ten per thousand, three at once, two in the queue.
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
        // A rejected request took nothing: a place is free one period later.
        assert_eq!(bucket.take(now + 100, 100, 300, 200), Place::In(200));
        assert_eq!(bucket.take(now + 10_000, 100, 300, 200), Place::In(0));
    }

    #[test]
    fn extreme_times_are_accepted() {
        let mut bucket = Bucket::default();
        assert_eq!(bucket.take(u64::MAX, u64::MAX, u64::MAX, 0), Place::In(0));
        assert_eq!(bucket.take(0, u64::MAX, 0, u64::MAX), Place::In(u64::MAX));
    }
}
