//! The table of one shard: open addressing, one tag byte a slot.
//!
//! Our own and not a library's for memory's sake. Capacity grows by an eighth instead of
//! doubling, so 80 to 90 % of the slots are used, where a table that doubles uses 44 to 87 %. And
//! slots lie in pages that stay where they are when the table grows: a thousand shards that each
//! take a larger block and free the smaller one would leave a third of the memory in holes.

use crate::window::Window;

/// Slots of one shard, found by fingerprint.
#[derive(Debug)]
pub(super) struct Slots<W> {
    /// Zero for an empty slot, otherwise seven bits of the fingerprint and a one: a search touches one
    /// cache line of tags and the one slot that it is after.
    tags: Vec<u8>,
    pages: Vec<Box<[Slot<W>; PAGE]>>,
    len: usize,
}

/// Slots of a page.
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

    /// Bytes that a table of `capacity` slots takes, with the allocator's share.
    pub(super) fn bytes(capacity: usize) -> usize {
        if capacity == 0 {
            return 0;
        }
        let pages = capacity / PAGE;
        let lists = fitted::<u8>(capacity) + fitted::<usize>(pages) * size_of::<usize>();
        pages * (size_of::<[Slot<W>; PAGE]>() + 8).next_multiple_of(16) + lists + 16
    }

    /// Whether one more key needs a larger table.
    pub(super) fn is_full(&self) -> bool {
        (self.len + 1) * 10 > self.capacity() * 9
    }

    /// The next larger capacity.
    pub(super) fn next_capacity(&self) -> usize {
        (self.capacity() + self.capacity() / 8 + 1).next_multiple_of(PAGE)
    }

    /// The capacity that fits.
    pub(super) fn fitting_capacity(&self) -> usize {
        (self.len + self.len / 4).next_multiple_of(PAGE)
    }

    /// Whether so few slots are used that a smaller table pays.
    pub(super) fn is_sparse(&self) -> bool {
        self.fitting_capacity() * 2 < self.capacity()
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
            if seen == tag && self.slot(at).fingerprint == fingerprint {
                return Some(at);
            }
            if seen == 0 {
                return None;
            }
            at += 1;
        }
    }

    /// Where the key is, by its tag alone: no slot is read. One in fifty guesses or so is another
    /// key, and keys round the end of the table are not guessed.
    #[inline]
    pub(super) fn guess(&self, fingerprint: u64) -> Option<usize> {
        let tag = tag(fingerprint);
        let home = home(fingerprint, self.tags.len());
        let tags = self.tags.get(home..)?;
        let at = tags.iter().position(|seen| *seen == tag || *seen == 0)?;
        (tags[at] == tag).then_some(home + at)
    }

    /// Reads the tag at which a search begins.
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

    /// Reads what a window has elsewhere.
    #[inline]
    pub(super) fn touch_window(&self, at: usize) -> u64 {
        self.slot(at).window.touch()
    }

    #[inline]
    pub(super) fn window(&mut self, at: usize) -> &mut W {
        &mut self.slot_mut(at).window
    }

    /// Whether the key is still at the place where it was found.
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

    /// Calls `each` with every key whose fingerprint lies in `from..=to`.
    pub(super) fn between(&self, from: u64, to: u64, mut each: impl FnMut(u64, &W)) {
        let capacity = self.capacity();
        let mut at = home(from, capacity);
        let last = home(to, capacity);
        // Keys lie at their home or behind it, up to the next empty slot, also round the end.
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

    /// Adds a key that is not there. The table is not full.
    pub(super) fn insert(&mut self, fingerprint: u64, window: W) {
        let capacity = self.capacity();
        let mut at = home(fingerprint, capacity);
        while self.tags[at] != 0 {
            at = if at + 1 == capacity { 0 } else { at + 1 };
        }
        self.tags[at] = tag(fingerprint);
        *self.slot_mut(at) = Slot { fingerprint, window };
        self.len += 1;
    }

    /// Takes a key out; those behind it move up, so that a search can still stop at the first
    /// empty slot.
    pub(super) fn remove(&mut self, at: usize) -> (u64, W) {
        let removed = core::mem::take(self.slot_mut(at));
        self.tags[at] = 0;
        self.len -= 1;
        let capacity = self.capacity();
        let (mut hole, mut next) = (at, at);
        for _ in 0..capacity {
            next = if next + 1 == capacity { 0 } else { next + 1 };
            if self.tags[next] == 0 {
                break;
            }
            let wanted = home(self.slot(next).fingerprint, capacity);
            // Round the end of the table, without a division for every key that is passed.
            let behind =
                |from: usize| if next >= from { next - from } else { next + capacity - from };
            if behind(wanted) >= behind(hole) {
                let moved = core::mem::take(self.slot_mut(next));
                *self.slot_mut(hole) = moved;
                self.tags.swap(hole, next);
                hole = next;
            }
        }
        (removed.fingerprint, removed.window)
    }

    /// Makes the table larger or smaller; `capacity` is a multiple of a page and holds all keys.
    pub(super) fn resize(&mut self, capacity: usize) {
        let mut keys = Vec::with_capacity(self.len);
        for (page, tags) in self.pages.iter_mut().zip(self.tags.chunks(PAGE)) {
            for (slot, _) in page.iter_mut().zip(tags).filter(|(_, tag)| **tag != 0) {
                keys.push(core::mem::take(slot));
            }
        }
        let pages = capacity / PAGE;
        self.pages.truncate(pages);
        fit(&mut self.pages, pages);
        while self.pages.len() < pages {
            self.pages.push(Box::new(core::array::from_fn(|_| Slot::default())));
        }
        self.tags.clear();
        fit(&mut self.tags, capacity);
        self.tags.resize(capacity, 0);
        self.len = 0;
        for Slot { fingerprint, window } in keys {
            self.insert(fingerprint, window);
        }
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

/// Makes a list as large as it has to be.
fn fit<T>(list: &mut Vec<T>, len: usize) {
    let capacity = fitted::<T>(len);
    list.shrink_to(capacity);
    list.reserve_exact(capacity - list.len());
}

/// What a list of `len` takes room for. Up to 128 bytes it doubles: each time a small list grows
/// it leaves a block behind that nothing else fits, in every one of a thousand shards.
fn fitted<T>(len: usize) -> usize {
    len.next_power_of_two().min(128 / size_of::<T>()).max(len)
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
    (fingerprint >> 24) as u8 | 0x80
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Log;

    fn fingerprint(number: u64) -> u64 {
        (number + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
            .wrapping_mul(0xd6e8_feb8_6659_fd93)
    }

    // A batch that guessed wrong would still be right, but no faster than one check after the other.
    #[test]
    fn most_guesses_are_right() {
        let mut slots = Slots::<Log>::new();
        assert_eq!((slots.guess(7), slots.touch_tag(7)), (None, 0));
        slots.resize(1120);
        for number in 0..1000 {
            slots.insert(fingerprint(number), Log::default());
        }
        let right = |number: &u64| {
            let fingerprint = fingerprint(*number);
            slots.guess(fingerprint).is_some_and(|at| slots.holds(at, fingerprint))
        };
        assert!((0..1000).filter(right).count() > 950);
        assert_eq!((1000..2000).filter(right).count(), 0);
        assert!((0..1000).all(|number| slots.find(fingerprint(number)).is_some()));
    }
}
