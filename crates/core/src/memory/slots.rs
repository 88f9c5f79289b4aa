//! The table of one shard: open addressing, one tag byte a slot.
//!
//! Our own and not a library's for memory's sake: capacity grows by an eighth instead of
//! doubling, so 78 to 87 % of the slots are used, where a table that doubles uses 44 to 87 %.

use crate::window::Window;

/// Slots of one shard, found by fingerprint.
#[derive(Debug)]
pub(super) struct Slots<W> {
    /// Zero for an empty slot, otherwise eight bits of the fingerprint: a search touches one
    /// cache line of tags and the one slot that it is after.
    tags: Box<[u8]>,
    places: Box<[Slot<W>]>,
    len: usize,
}

/// A key's fingerprint and its window.
#[derive(Debug)]
struct Slot<W> {
    fingerprint: u64,
    window: W,
}

impl<W: Window> Slots<W> {
    pub(super) fn new() -> Self {
        Self { tags: Box::default(), places: Box::default(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.tags.len()
    }

    /// Bytes that a table of `capacity` slots takes, with the allocator's share.
    pub(super) fn bytes(capacity: usize) -> usize {
        if capacity == 0 { 0 } else { capacity * (size_of::<Slot<W>>() + 1) + 32 }
    }

    /// Whether one more key needs a larger table.
    pub(super) fn is_full(&self) -> bool {
        self.len + 1 > self.capacity() / 8 * 7
    }

    /// The next larger capacity.
    pub(super) fn next_capacity(&self) -> usize {
        (self.capacity() + (self.capacity() / 8).max(8)).next_multiple_of(8)
    }

    /// The capacity that fits, if so few slots are used that a smaller table pays.
    pub(super) fn smaller_capacity(&self) -> Option<usize> {
        let fitting = (self.len + self.len / 4 + 8).next_multiple_of(8);
        (fitting * 2 < self.capacity()).then_some(fitting)
    }

    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> Option<usize> {
        let tag = tag(fingerprint);
        let mut at = home(fingerprint, self.tags.len());
        // Ends at an empty slot, of which there always is one unless the table has none at all.
        loop {
            let Some(&seen) = self.tags.get(at) else {
                if at == 0 {
                    return None;
                }
                at = 0;
                continue;
            };
            if seen == tag && self.places[at].fingerprint == fingerprint {
                return Some(at);
            }
            if seen == 0 {
                return None;
            }
            at += 1;
        }
    }

    #[inline]
    pub(super) fn window(&mut self, at: usize) -> &mut W {
        &mut self.places[at].window
    }

    /// Whether the key is still at the place where it was found.
    pub(super) fn holds(&self, at: usize, fingerprint: u64) -> bool {
        self.places.get(at).is_some_and(|slot| slot.fingerprint == fingerprint)
            && self.tags[at] != 0
    }

    pub(super) fn get(&self, at: usize) -> Option<(u64, &W)> {
        let slot = self.places.get(at)?;
        (self.tags[at] != 0).then_some((slot.fingerprint, &slot.window))
    }

    /// Calls `each` with every key whose fingerprint lies in `from..=to`.
    pub(super) fn between(&self, from: u64, to: u64, mut each: impl FnMut(u64, &W)) {
        let capacity = self.capacity();
        let mut at = home(from, capacity);
        let last = home(to, capacity);
        // Keys lie at their home or behind it, up to the next empty slot, also round the end.
        let mut passed = false;
        for _ in 0..capacity {
            let slot = &self.places[at];
            if self.tags[at] == 0 {
                if passed {
                    return;
                }
            } else if (from..=to).contains(&slot.fingerprint) {
                each(slot.fingerprint, &slot.window);
            }
            passed |= at == last;
            at = if at + 1 == capacity { 0 } else { at + 1 };
        }
    }

    /// Adds a key that is not there. The table is not full.
    pub(super) fn insert(&mut self, fingerprint: u64, window: W) {
        let capacity = self.capacity();
        let mut at = home(fingerprint, capacity);
        while self.tags[at] != 0 {
            at = if at + 1 == capacity { 0 } else { at + 1 };
        }
        self.tags[at] = tag(fingerprint);
        self.places[at] = Slot { fingerprint, window };
        self.len += 1;
    }

    /// Takes a key out; those behind it move up, so that a search can still stop at the first
    /// empty slot.
    pub(super) fn remove(&mut self, at: usize) -> (u64, W) {
        let removed = core::mem::replace(&mut self.places[at], Slot::vacant());
        self.tags[at] = 0;
        self.len -= 1;
        let capacity = self.capacity();
        let (mut hole, mut next) = (at, at);
        for _ in 0..capacity {
            next = if next + 1 == capacity { 0 } else { next + 1 };
            if self.tags[next] == 0 {
                break;
            }
            let wanted = home(self.places[next].fingerprint, capacity);
            let from_home = (next + capacity - wanted) % capacity;
            let from_hole = (next + capacity - hole) % capacity;
            if from_home >= from_hole {
                self.places.swap(hole, next);
                self.tags.swap(hole, next);
                hole = next;
            }
        }
        (removed.fingerprint, removed.window)
    }

    pub(super) fn resize(&mut self, capacity: usize) {
        let places = (0..capacity).map(|_| Slot::vacant()).collect();
        let tags = vec![0; capacity].into_boxed_slice();
        let old_tags = core::mem::replace(&mut self.tags, tags);
        let old_slots = core::mem::replace(&mut self.places, places);
        self.len = 0;
        for (slot, tag) in old_slots.into_iter().zip(old_tags) {
            if tag != 0 {
                self.insert(slot.fingerprint, slot.window);
            }
        }
    }
}

impl<W: Window> Slot<W> {
    fn vacant() -> Self {
        Self { fingerprint: 0, window: W::vacant() }
    }
}

/// Where a search begins: the upper bits spread evenly over any capacity.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than the capacity")]
fn home(fingerprint: u64, capacity: usize) -> usize {
    ((u128::from(fingerprint) * capacity as u128) >> 64) as usize
}

/// Bits that neither choose the shard nor the place.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "eight bits of many")]
fn tag(fingerprint: u64) -> u8 {
    ((fingerprint >> 24) as u8).max(1)
}
