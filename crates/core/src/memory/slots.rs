//! The table of one shard: open addressing, with one tag byte per slot.
//!
//! A library's table would take more memory. Capacity grows by at most a quarter, so 72 to 90 % of the
//! slots are used; a table that doubles uses 44 to 87 %. And slots are in pages that do not move when
//! the table grows: if a thousand shards each allocated a larger block and freed the smaller one, a
//! third of the memory would be unusable holes.

use core::ops::Range;

use crate::window::Window;

/// Slots of one shard, found by fingerprint.
#[derive(Debug)]
pub(super) struct Slots<W> {
    /// Zero for an empty slot, otherwise seven bits of the fingerprint and a one. A search usually
    /// reads one cache line of tags and one slot.
    tags: Vec<u8>,
    pages: Vec<Box<[Slot<W>; PAGE]>>,
    len: usize,
}

/// Slots per page.
const PAGE: usize = 16;

/// A key's fingerprint and its window.
#[derive(Debug, Default)]
struct Slot<W> {
    fingerprint: u64,
    window: W,
}

impl<W: Window> Slots<W> {
    pub(super) fn new() -> Self {
        Self { tags: Vec::new(), pages: Vec::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn capacity(&self) -> usize {
        self.tags.len()
    }

    /// Returns the bytes of a table of `capacity` slots, with the allocator's headers.
    pub(super) fn bytes(capacity: usize) -> usize {
        if capacity == 0 {
            return 0;
        }
        let pages = capacity / PAGE;
        let lists = fitted::<u8>(capacity) + fitted::<usize>(pages) * size_of::<usize>();
        pages * (size_of::<[Slot<W>; PAGE]>() + 8).next_multiple_of(16) + lists + 16
    }

    /// Returns `true` if one more key needs a larger table.
    pub(super) fn is_full(&self) -> bool {
        (self.len + 1) * 10 > self.capacity() * 9
    }

    /// Returns the capacity that the table grows to: larger by a quarter, or by an eighth if it is small,
    /// so that moving is fast, or so large that a quarter would be much memory.
    pub(super) fn next_capacity(&self) -> usize {
        let capacity = self.capacity();
        let part = if (256..4096).contains(&capacity) { 4 } else { 8 };
        (capacity + capacity / part + 1).next_multiple_of(PAGE)
    }

    /// Returns the least capacity that the table can grow to if the budget does not allow more: larger by
    /// a sixteenth.
    pub(super) fn least_next_capacity(&self) -> usize {
        (self.capacity() + self.capacity() / 16 + 1).next_multiple_of(PAGE)
    }

    /// Returns the least capacity for the current keys.
    pub(super) fn fitting_capacity(&self) -> usize {
        (self.len + self.len / 4).next_multiple_of(PAGE)
    }

    /// Returns `true` if so few slots are used that the table should shrink.
    pub(super) fn is_sparse(&self) -> bool {
        self.fitting_capacity() * 2 < self.capacity()
    }

    #[inline]
    pub(super) fn find(&self, fingerprint: u64) -> Option<usize> {
        let tag = tag(fingerprint);
        let mut at = home(fingerprint, self.tags.len());
        // Ends at an empty slot. There always is one, unless the capacity is zero.
        loop {
            let Some(&seen) = self.tags.get(at) else {
                if at == 0 {
                    return None;
                }
                at = 0;
                continue;
            };
            if seen == tag && self.slot(at).fingerprint == fingerprint {
                return Some(at);
            }
            if seen == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// Returns the slot of a key by its tag alone, without reading a slot. About one in fifty guesses is
    /// another key, and keys that wrapped around the end of the table are not found.
    #[inline]
    pub(super) fn guess(&self, fingerprint: u64) -> Option<usize> {
        let tag = tag(fingerprint);
        let home = home(fingerprint, self.tags.len());
        let tags = self.tags.get(home..)?;
        let at = tags.iter().position(|seen| *seen == tag || *seen == 0)?;
        (tags[at] == tag).then_some(home + at)
    }

    /// Reads the tag at which a search starts.
    #[inline]
    pub(super) fn touch_tag(&self, fingerprint: u64) -> u64 {
        let tag = self.tags.get(home(fingerprint, self.tags.len()));
        tag.map_or(0, |tag| u64::from(*tag))
    }

    /// Reads both ends of a slot.
    #[inline]
    pub(super) fn touch(&self, at: usize) -> u64 {
        let Slot { fingerprint, window } = self.slot(at);
        fingerprint ^ u64::from(window.epoch())
    }

    /// Reads the heap memory of a window.
    #[inline]
    pub(super) fn touch_window(&self, at: usize) -> u64 {
        self.slot(at).window.touch()
    }

    #[inline]
    pub(super) fn window(&mut self, at: usize) -> &mut W {
        &mut self.slot_mut(at).window
    }

    /// Returns `true` if the key is in slot `at`.
    pub(super) fn holds(&self, at: usize, fingerprint: u64) -> bool {
        self.get(at).is_some_and(|(found, _)| found == fingerprint)
    }

    pub(super) fn get(&self, at: usize) -> Option<(u64, &W)> {
        let slot = (*self.tags.get(at)? != 0).then(|| self.slot(at))?;
        Some((slot.fingerprint, &slot.window))
    }

    pub(super) fn get_mut(&mut self, at: usize) -> Option<&mut W> {
        (*self.tags.get(at)? != 0).then(|| self.window(at))
    }

    /// Calls `each` with every key whose fingerprint is in `from..=to`.
    pub(super) fn between(&self, from: u64, to: u64, mut each: impl FnMut(u64, &W)) {
        let capacity = self.capacity();
        let mut at = home(from, capacity);
        let last = home(to, capacity);
        // Keys are at their home slot or behind it, up to the next empty slot, also around the end.
        let mut passed = false;
        for _ in 0..capacity {
            let slot = self.slot(at);
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

    /// Returns the slots of all keys: first those that a search for `fingerprint` passes, then those
    /// before its home slot, nearest first. Replacing one of the first moves few other keys.
    pub(super) fn near(&self, fingerprint: u64) -> impl Iterator<Item = usize> + '_ {
        let capacity = self.capacity();
        let home = home(fingerprint, capacity);
        let passed = distance(home, self.vacancy(fingerprint), capacity);
        let up = (0..passed).map(move |steps| home + steps);
        let down = (1..=capacity - passed).map(move |steps| home + capacity - steps);
        let places = up.chain(down).map(move |at| if at < capacity { at } else { at - capacity });
        places.filter(|at| self.tags[*at] != 0)
    }

    /// Adds a key that is not in the table, and returns its slot. The table must not be full.
    pub(super) fn insert(&mut self, fingerprint: u64, window: W) -> usize {
        let at = self.vacancy(fingerprint);
        self.put(at, Slot { fingerprint, window });
        self.len += 1;
        at
    }

    /// Replaces the key at `at` by a key that is not in the table. Returns the slot of the new key, and
    /// `true` if a key has moved from the front of the table to its end.
    pub(super) fn replace(&mut self, at: usize, fingerprint: u64, window: W) -> (usize, bool) {
        let home = home(fingerprint, self.capacity());
        let behind = |at: usize| distance(home, at, self.capacity());
        if behind(at) > behind(self.vacancy(fingerprint)) {
            // A search for the new key would stop before this slot.
            let (_, moved_round_end) = self.remove(at);
            return (self.insert(fingerprint, window), moved_round_end);
        }
        self.put(at, Slot { fingerprint, window });
        (at, false)
    }

    /// Removes a key. Keys behind it move up, so that a search can still stop at the first empty slot.
    /// Returns its window, and `true` if a key has moved from the front of the table to its end.
    pub(super) fn remove(&mut self, at: usize) -> (W, bool) {
        let removed = self.take(at);
        self.len -= 1;
        let capacity = self.capacity();
        let (mut hole, mut next) = (at, at);
        let mut moved_round_end = false;
        for _ in 0..capacity {
            next = if next + 1 == capacity { 0 } else { next + 1 };
            if self.tags[next] == 0 {
                break;
            }
            let wanted = home(self.slot(next).fingerprint, capacity);
            if distance(wanted, next, capacity) >= distance(hole, next, capacity) {
                moved_round_end |= next < hole;
                let moved = self.take(next);
                self.put(hole, moved);
                hole = next;
            }
        }
        (removed.window, moved_round_end)
    }

    /// Makes the table larger, in place. `capacity` is a multiple of a page.
    ///
    /// A larger capacity never lowers a home slot. So runs of adjacent keys are moved one by one, the
    /// last first: no key of a run belongs before the run, and all keys behind it are already in their
    /// new slots.
    pub(super) fn grow(&mut self, capacity: usize) {
        let before = self.capacity();
        // Keys at the front may have wrapped around the end, so they are inserted last.
        let used = self.tags.iter().position(|tag| *tag == 0).unwrap_or(before);
        let mut front = self.take_all(0..used);
        self.fit(capacity);
        self.len = 0;
        let mut run = Vec::new();
        for at in (0..before).rev() {
            if self.tags[at] == 0 {
                self.insert_all(&mut run);
            } else {
                run.push(self.take(at));
            }
        }
        self.insert_all(&mut run);
        self.insert_all(&mut front);
    }

    /// Makes the table smaller. `capacity` is a multiple of a page and enough for all keys.
    pub(super) fn shrink(&mut self, capacity: usize) {
        let mut keys = self.take_all(0..self.capacity());
        self.fit(capacity);
        self.len = 0;
        self.insert_all(&mut keys);
    }

    fn insert_all(&mut self, keys: &mut Vec<Slot<W>>) {
        for Slot { fingerprint, window } in keys.drain(..) {
            self.insert(fingerprint, window);
        }
    }

    /// Empties slots and returns their keys.
    fn take_all(&mut self, places: Range<usize>) -> Vec<Slot<W>> {
        let mut keys = Vec::new();
        for at in places {
            if self.tags[at] != 0 {
                keys.push(self.take(at));
            }
        }
        keys
    }

    /// Extends the tags and pages to `capacity`. New slots are empty.
    fn fit(&mut self, capacity: usize) {
        let pages = capacity / PAGE;
        self.pages.truncate(pages);
        fit(&mut self.pages, pages);
        while self.pages.len() < pages {
            self.pages.push(Box::new(core::array::from_fn(|_| Slot::default())));
        }
        self.tags.truncate(capacity);
        fit(&mut self.tags, capacity);
        self.tags.resize(capacity, 0);
    }

    /// Returns the first empty slot at or after a key's home.
    fn vacancy(&self, fingerprint: u64) -> usize {
        let home = home(fingerprint, self.capacity());
        let behind = first_empty(&self.tags[home..]).map(|steps| home + steps);
        behind.or_else(|| first_empty(&self.tags)).unwrap_or(0)
    }

    fn put(&mut self, at: usize, slot: Slot<W>) {
        self.tags[at] = tag(slot.fingerprint);
        *self.slot_mut(at) = slot;
    }

    fn take(&mut self, at: usize) -> Slot<W> {
        self.tags[at] = 0;
        core::mem::take(self.slot_mut(at))
    }

    #[inline]
    fn slot(&self, at: usize) -> &Slot<W> {
        &self.pages[at / PAGE][at % PAGE]
    }

    #[inline]
    fn slot_mut(&mut self, at: usize) -> &mut Slot<W> {
        &mut self.pages[at / PAGE][at % PAGE]
    }
}

/// Extends a list to `len`.
fn fit<T>(list: &mut Vec<T>, len: usize) {
    let capacity = fitted::<T>(len);
    list.shrink_to(capacity);
    list.reserve_exact(capacity - list.len());
}

/// Returns the capacity of a list of `len`. Up to 128 bytes it doubles: each time a small list grows,
/// the freed block is too small for anything else, in each of a thousand shards.
fn fitted<T>(len: usize) -> usize {
    len.next_power_of_two().min(128 / size_of::<T>()).max(len)
}

/// Returns the slot where a search starts. The upper bits spread evenly over any capacity.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "less than the capacity")]
fn home(fingerprint: u64, capacity: usize) -> usize {
    ((u128::from(fingerprint) * capacity as u128) >> 64) as usize
}

/// Returns the number of slots from `from` to `to`, around the end of the table if necessary.
fn distance(from: usize, to: usize, capacity: usize) -> usize {
    if to >= from { to - from } else { to + capacity - from }
}

/// Returns the first zero of `tags`, of which the others have their highest bit set.
fn first_empty(tags: &[u8]) -> Option<usize> {
    const USED: u64 = 0x8080_8080_8080_8080;
    let (words, rest) = tags.as_chunks::<8>();
    for (number, word) in words.iter().enumerate() {
        let empty = !u64::from_le_bytes(*word) & USED;
        if empty != 0 {
            return Some(number * 8 + empty.trailing_zeros() as usize / 8);
        }
    }
    rest.iter().position(|tag| *tag == 0).map(|steps| words.len() * 8 + steps)
}

/// Returns the tag: bits that select neither the shard nor the home slot.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "eight bits of many")]
fn tag(fingerprint: u64) -> u8 {
    (fingerprint >> 24) as u8 | 0x80
}

#[cfg(test)]
mod tests;
