//! Puts requests into the order of time.

use core::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use super::Timed;

/// The most requests that are held back.
const HELD_MAX: usize = 1 << 20;

/// Sorts a stream that is out of order by at most a given time.
///
/// A request is held back until one comes that is later by the bound. A request that is late by more
/// gets the time of the one before it, since a clock does not go back, and is counted.
#[derive(Debug)]
pub(crate) struct Reorder<T> {
    held: BinaryHeap<Reverse<Pending<T>>>,
    bound_ms: u64,
    latest_ms: u64,
    /// The time of the last request that was released.
    released_ms: u64,
    sequence: u64,
    /// Requests that were late by more than the bound.
    pub(crate) late: u64,
}

#[derive(Debug)]
struct Pending<T> {
    at_ms: u64,
    /// Requests of the same time stay in their order.
    sequence: u64,
    item: T,
}

impl<T> Reorder<T> {
    pub(crate) fn new(bound_ms: u64) -> Self {
        Self {
            held: BinaryHeap::new(),
            bound_ms,
            latest_ms: 0,
            released_ms: 0,
            sequence: 0,
            late: 0,
        }
    }

    pub(crate) fn push(&mut self, at_ms: u64, item: T) {
        let at_ms = if at_ms < self.released_ms {
            self.late += 1;
            self.released_ms
        } else {
            at_ms
        };
        self.latest_ms = self.latest_ms.max(at_ms);
        self.sequence += 1;
        self.held.push(Reverse(Pending { at_ms, sequence: self.sequence, item }));
    }

    /// The next request if it cannot be overtaken any more.
    pub(crate) fn pop(&mut self) -> Option<Timed<T>> {
        let Reverse(first) = self.held.peek()?;
        let is_due = first.at_ms.saturating_add(self.bound_ms) < self.latest_ms;
        if is_due || self.held.len() > HELD_MAX { self.pop_rest() } else { None }
    }

    /// The next request, after the end of the stream.
    pub(crate) fn pop_rest(&mut self) -> Option<Timed<T>> {
        let Reverse(Pending { at_ms, item, .. }) = self.held.pop()?;
        self.released_ms = at_ms;
        Some(Timed { at_ms, item })
    }
}

impl<T> PartialEq for Pending<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<T> Eq for Pending<T> {}

impl<T> PartialOrd for Pending<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Pending<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at_ms, self.sequence).cmp(&(other.at_ms, other.sequence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(bound_ms: u64, times: &[u64]) -> (Vec<(u64, usize)>, u64) {
        let mut reorder = Reorder::new(bound_ms);
        let mut out = Vec::new();
        for (number, at_ms) in times.iter().enumerate() {
            reorder.push(*at_ms, number);
            while let Some(timed) = reorder.pop() {
                out.push((timed.at_ms, timed.item));
            }
        }
        while let Some(timed) = reorder.pop_rest() {
            out.push((timed.at_ms, timed.item));
        }
        (out, reorder.late)
    }

    #[test]
    fn disorder_within_the_bound_is_sorted_and_ties_keep_their_order() {
        let (out, late) = sorted(10, &[5, 3, 3, 13, 4, 14, 20]);
        assert_eq!(out, [(3, 1), (3, 2), (4, 4), (5, 0), (13, 3), (14, 5), (20, 6)]);
        assert_eq!(late, 0);
    }

    #[test]
    fn what_is_later_than_the_bound_is_counted_and_gets_the_time_of_the_clock() {
        let (out, late) = sorted(10, &[5, 100, 4, 101]);
        assert_eq!(out, [(5, 0), (5, 2), (100, 1), (101, 3)]);
        assert_eq!(late, 1);
    }
}
