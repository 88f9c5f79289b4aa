//! Who waits for units, in the order of arrival.

use core::time::Duration;

/// Who waits for units, in the order of arrival.
///
/// Nobody overtakes: who comes later, or wakes late, leaves the units of those before it alone.
#[derive(Debug, Default)]
pub(crate) struct Line {
    /// Ordered by number; at most as many as requests may wait.
    places: Vec<Place>,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    number: u64,
    /// When it was told to ask again.
    due: Duration,
}

/// A place that is overdue by more than this holds nobody back: its owner may have stopped
/// polling, and would otherwise block everybody behind it.
const LATE_MAX: Duration = Duration::from_secs(1);

impl Line {
    /// How many wait before `number`.
    pub(crate) fn before(&self, number: u64, now: Duration) -> u64 {
        let earlier = self.places.iter().take_while(|place| place.number < number);
        let alive = earlier.filter(|place| place.due.saturating_add(LATE_MAX) >= now);
        u64::try_from(alive.count()).unwrap_or(u64::MAX)
    }

    /// Puts `number` at its place, to ask again at `due`.
    pub(crate) fn put(&mut self, number: u64, due: Duration) {
        match self.find(number) {
            Ok(at) => self.places[at].due = due,
            Err(at) => self.places.insert(at, Place { number, due }),
        }
    }

    /// Takes `number` out of the line; whether others move up.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Ok(at) = self.find(number) else { return false };
        self.places.remove(at);
        at < self.places.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        self.places.binary_search_by_key(&number, |place| place.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_that_of_the_numbers() {
        let mut line = Line::default();
        let now = Duration::from_secs(10);
        for number in [3, 1, 2] {
            line.put(number, now);
        }
        assert_eq!([1, 2, 3, 4].map(|number| line.before(number, now)), [0, 1, 2, 3]);
        assert!(line.remove(2));
        assert!(!line.remove(7));
        assert_eq!(line.before(3, now), 1);
        assert!(line.remove(1));
        assert!(!line.remove(3));
        assert!(line.is_empty());
    }

    #[test]
    fn who_does_not_come_holds_nobody_back() {
        let mut line = Line::default();
        line.put(1, Duration::from_secs(10));
        assert_eq!(line.before(2, Duration::from_secs(11)), 1);
        assert_eq!(line.before(2, Duration::from_millis(11_001)), 0);
        line.put(1, Duration::from_secs(12));
        assert_eq!(line.before(2, Duration::from_millis(11_001)), 1);
    }
}
