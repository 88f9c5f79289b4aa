//! Requests that wait for units, in order of arrival.

use core::time::Duration;

/// Requests that wait for units, in order of arrival.
///
/// A request never takes the units of those before it, even if they wake late.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    /// Ordered by number, at most `waiters_max`.
    tickets: Vec<QueuedTicket>,
}

#[derive(Debug, Clone, Copy)]
struct QueuedTicket {
    number: u64,
    /// When it should check again.
    due: Duration,
}

/// A ticket that is overdue by more than this blocks no other, because its owner may have stopped
/// polling.
const LATE_MAX: Duration = Duration::from_secs(1);

impl WaitQueue {
    /// Returns the number of requests that wait before `number`.
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

    /// Removes `number`. Returns `true` if others move up.
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
mod tests;
