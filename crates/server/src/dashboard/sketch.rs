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
    /// A counter stays in its slot until another key takes it over.
    slots: Vec<Counter<T>>,
    /// The slots in a heap: no count is above those of its children. Only this moves, and not the
    /// counters or the map, because a request may pay for it.
    heap: Vec<Entry>,
    /// The slot of every key.
    slot_of: HashMap<u64, usize, BuildHasherDefault<Identity>>,
    counters_max: usize,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    count: u64,
    slot: usize,
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
    /// The place in the heap.
    place: usize,
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
    /// Creates a sketch with this number of counters.
    pub(super) fn new(counters_max: usize) -> Self {
        Self {
            slots: Vec::new(),
            heap: Vec::new(),
            slot_of: HashMap::default(),
            counters_max: counters_max.max(1),
        }
    }

    /// Counts `by` requests of a key. `fresh` makes the value of a key without a counter, from that
    /// of the key that loses it.
    pub(super) fn add(
        &mut self,
        id: u64,
        by: u64,
        fresh: impl FnOnce(Option<T>) -> T,
        update: impl FnOnce(&mut T),
    ) where
        T: Default,
    {
        let slot = match self.slot_of.get(&id) {
            Some(slot) => *slot,
            None => self.take_counter(id, fresh),
        };
        let Some(counter) = self.slots.get_mut(slot) else { return };
        counter.count = counter.count.saturating_add(by);
        update(&mut counter.value);
        let (place, count) = (counter.place, counter.count);
        self.sink(place, Entry { count, slot });
    }

    /// Gives a key a counter, and returns its slot.
    fn take_counter(&mut self, id: u64, fresh: impl FnOnce(Option<T>) -> T) -> usize
    where
        T: Default,
    {
        let lowest = self.heap.first().copied();
        let slot = match lowest.filter(|_| self.slots.len() >= self.counters_max) {
            Some(Entry { slot, .. }) => {
                let counter = &mut self.slots[slot];
                self.slot_of.remove(&counter.id);
                let value = core::mem::take(&mut counter.value);
                (counter.id, counter.error) = (id, counter.count);
                counter.value = fresh(Some(value));
                slot
            }
            None => {
                let (slot, place) = (self.slots.len(), self.heap.len());
                self.slots.push(Counter { id, count: 0, error: 0, value: fresh(None), place });
                self.heap.push(Entry { count: 0, slot });
                self.rise(place);
                slot
            }
        };
        self.slot_of.insert(id, slot);
        slot
    }

    /// Moves the last counter of the heap up. It has the lowest count, so it goes to the top.
    fn rise(&mut self, mut place: usize) {
        let entry = self.heap[place];
        while place > 0 {
            let parent = (place - 1) / 2;
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    /// Puts a counter at a place, or down from there until no child is below it.
    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let left = 2 * place + 1;
            let child = match (self.heap.get(left), self.heap.get(left + 1)) {
                (Some(one), Some(other)) if other.count < one.count => left + 1,
                (Some(_), _) => left,
                (None, _) => break,
            };
            let below = self.heap[child];
            if below.count >= entry.count {
                break;
            }
            self.put(place, below);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.slots[entry.slot].place = place;
    }

    /// Halves all counts, so that old requests fade.
    pub(super) fn halve(&mut self) {
        for counter in &mut self.slots {
            counter.count /= 2;
            counter.error /= 2;
        }
        for entry in &mut self.heap {
            entry.count /= 2;
        }
    }

    /// Returns the counter of a key.
    pub(super) fn get(&self, id: u64) -> Option<&Counter<T>> {
        self.slots.get(*self.slot_of.get(&id)?)
    }

    /// Returns all counters, in no order.
    pub(super) fn counters(&self) -> &[Counter<T>] {
        &self.slots
    }

    /// Returns all values, in no order.
    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.slots.iter_mut().map(|counter| &mut counter.value)
    }

    /// Removes all counters.
    pub(super) fn clear(&mut self) {
        self.slots.clear();
        self.heap.clear();
        self.slot_of.clear();
    }
}

#[cfg(test)]
mod tests;
