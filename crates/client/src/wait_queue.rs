//! Requests that wait for units, in order of arrival.

use core::time::Duration;

/// Requests that wait for units, in order of arrival.
///
/// A request never takes the units of those before it, even if they wake late.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    /// Ordered by number; at most `waiters_max`.
    tickets: Vec<QueuedTicket>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedTicket {
    number: u64,
    /// When it should ask again.
    due: Duration,
}

/// A ticket that is overdue by more than this blocks no other: its owner may have stopped polling.
const LATE_MAX: Duration = Duration::from_secs(1);

impl WaitQueue {
    /// The number of requests that wait before `number`.
    pub(crate) fn before(&self, number: u64, now: Duration) -> u64 {
        let earlier = self.tickets.iter().take_while(|ticket| ticket.number < number);
        let alive = earlier.filter(|ticket| ticket.due.saturating_add(LATE_MAX) >= now);
        u64::try_from(alive.count()).unwrap_or(u64::MAX)
    }

    /// Adds `number`, or changes when it is due.
    pub(crate) fn put(&mut self, number: u64, due: Duration) {
        match self.find(number) {
            Ok(at) => self.tickets[at].due = due,
            Err(at) => self.tickets.insert(at, QueuedTicket { number, due }),
        }
    }

    /// Removes `number`. Returns whether others move up.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        let Ok(at) = self.find(number) else { return false };
        self.tickets.remove(at);
        at < self.tickets.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tickets.is_empty()
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        self.tickets.binary_search_by_key(&number, |ticket| ticket.number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tickets_are_ordered_by_number() {
        let mut line = WaitQueue::default();
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
    fn overdue_ticket_blocks_no_other() {
        let mut line = WaitQueue::default();
        line.put(1, Duration::from_secs(10));
        assert_eq!(line.before(2, Duration::from_secs(11)), 1);
        assert_eq!(line.before(2, Duration::from_millis(11_001)), 0);
        line.put(1, Duration::from_secs(12));
        assert_eq!(line.before(2, Duration::from_millis(11_001)), 1);
    }
}
