//! The most frequent keys in bounded memory: the Space-Saving algorithm.
//!
//! At most a fixed number of keys has a counter. A key without one takes over the counter with the
//! lowest count, and inherits that count as its possible error. So every key with more than a share of
//! one counter of all requests is in the sketch.

use core::hash::{BuildHasherDefault, Hasher};
use std::collections::HashMap;

/// Counts the most frequent keys.
#[derive(Debug)]
pub(super) struct Sketch<T> {
    /// A heap: no counter is above those of its children.
    heap: Vec<Counter<T>>,
    /// The place of every key in the heap.
    places: HashMap<u64, usize, BuildHasherDefault<Identity>>,
    counters_max: usize,
}

/// The count of one key.
#[derive(Debug)]
pub(super) struct Counter<T> {
    /// The hash of the key.
    pub(super) id: u64,
    /// The number of requests, at most `error` too high.
    pub(super) count: u64,
    /// How much of the count may belong to other keys.
    pub(super) error: u64,
    /// What else is known of the key.
    pub(super) value: T,
}

/// Hashes a number that is a keyed hash already.
#[derive(Debug, Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

impl<T> Sketch<T> {
    /// Creates a sketch with at most this number of counters.
    pub(super) fn new(counters_max: usize) -> Self {
        Self { heap: Vec::new(), places: HashMap::default(), counters_max: counters_max.max(1) }
    }

    /// Counts a key. `fresh` makes the value of a key that has no counter, from the value of the key
    /// that loses it.
    pub(super) fn add(
        &mut self,
        id: u64,
        by: u64,
        fresh: impl FnOnce(Option<T>) -> T,
        update: impl FnOnce(&mut T),
    ) {
        let place = match self.places.get(&id) {
            Some(place) => *place,
            None => self.take_counter(id, fresh),
        };
        if let Some(counter) = self.heap.get_mut(place) {
            counter.count = counter.count.saturating_add(by);
            update(&mut counter.value);
        }
        self.sink(place);
    }

    /// Gives a key a counter, and returns its place.
    fn take_counter(&mut self, id: u64, fresh: impl FnOnce(Option<T>) -> T) -> usize {
        if self.heap.len() < self.counters_max {
            // New counters have the lowest count, so they belong to the top.
            self.heap.push(Counter { id, count: 0, error: 0, value: fresh(None) });
            let mut place = self.heap.len() - 1;
            self.places.insert(id, place);
            while place > 0 {
                let parent = (place - 1) / 2;
                self.swap(place, parent);
                place = parent;
            }
            return place;
        }
        let lowest = self.heap.swap_remove(0);
        self.places.remove(&lowest.id);
        self.places.insert(id, 0);
        let counter = Counter {
            id,
            count: lowest.count,
            error: lowest.count,
            value: fresh(Some(lowest.value)),
        };
        self.heap.push(counter);
        let last = self.heap.len() - 1;
        self.heap.swap(0, last);
        if let Some(moved) = self.heap.get(last) {
            self.places.insert(moved.id, last);
        }
        0
    }

    /// Moves a counter down until no child is below it.
    fn sink(&mut self, mut place: usize) {
        loop {
            let count = |place: usize| self.heap.get(place).map(|counter| counter.count);
            let left = 2 * place + 1;
            let child = match (count(left), count(left + 1)) {
                (Some(one), Some(other)) if other < one => left + 1,
                (Some(_), _) => left,
                (None, _) => return,
            };
            if count(child) >= count(place) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, one: usize, other: usize) {
        self.heap.swap(one, other);
        for place in [one, other] {
            if let Some(counter) = self.heap.get(place) {
                self.places.insert(counter.id, place);
            }
        }
    }

    /// Halves all counts, so that old requests fade.
    pub(super) fn halve(&mut self) {
        for counter in &mut self.heap {
            counter.count /= 2;
            counter.error /= 2;
        }
    }

    /// Returns the counter of a key.
    pub(super) fn get(&self, id: u64) -> Option<&Counter<T>> {
        self.heap.get(*self.places.get(&id)?)
    }

    /// Returns all counters, in no order.
    pub(super) fn counters(&self) -> &[Counter<T>] {
        &self.heap
    }

    /// Returns all values, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.heap.iter_mut().map(|counter| &mut counter.value)
    }

    /// Removes all counters.
    pub(super) fn clear(&mut self) {
        self.heap.clear();
        self.places.clear();
    }
}

#[cfg(test)]
mod tests;
