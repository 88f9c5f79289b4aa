//! Where one quota's window begins in a wide log, and what it sums up to.

use std::collections::VecDeque;

use super::code::read;
use super::codes::Codes;

/// A run of codes with the sum of their units. The tick of a chunk's first entry is kept separately,
/// so that a chunk can be read, skipped or merged without the ones before it.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The tick of the entry at `start`.
    pub(super) first: u64,
    /// Units of the entries from `start` on.
    pub(super) units: u64,
    /// Bytes that are no longer needed.
    pub(super) start: usize,
    pub(super) codes: Vec<u8>,
}

impl Chunk {
    /// Calls `each` with byte, tick, units and length of every entry until it says to stop.
    pub(super) fn scan(&self, mut each: impl FnMut(usize, u64, u64, usize) -> bool) {
        let (mut at, mut tick) = (self.start, self.first);
        while at < self.codes.len() {
            let entry = read(&self.codes[at..]);
            if !each(at, tick, entry.units, entry.len) {
                return;
            }
            tick += entry.gap;
            at += entry.len;
        }
    }

    /// The tick and units of every entry.
    pub(super) fn walk(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut tick = self.first;
        Codes::new(&self.codes, self.start, self.codes.len()).map(move |entry| {
            let at = tick;
            tick += entry.gap;
            (at, entry.units)
        })
    }
}

/// The first entry that still counts in one window, and the units from there on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cursor {
    pub(super) window: u64,
    pub(super) tick: u64,
    pub(super) units: u64,
    /// The chunk, counted from the first there ever was; [`OPEN`] for the open entry.
    pub(super) chunk: u64,
    pub(super) offset: usize,
}

/// The place of the open entry, which is in no chunk.
pub(super) const OPEN: u64 = u64::MAX;

impl Cursor {
    /// Moves past everything at or before `now - window`. `base` is the number of the front chunk
    /// and `last` the tick of the open entry.
    pub(super) fn advance(&mut self, chunks: &VecDeque<Chunk>, base: u64, last: u64, now: u64) {
        let horizon = now.checked_sub(self.window);
        let expired = |tick: u64| horizon.is_some_and(|horizon| tick <= horizon);
        while self.units > 0 {
            let Some(index) = self.index(base).filter(|index| *index < chunks.len()) else {
                if expired(self.tick) {
                    // The open entry has expired, and nothing is behind it.
                    self.units = 0;
                }
                return;
            };
            let chunk = &chunks[index];
            let next = chunks.get(index + 1).map(|next| (next.first, next.start));
            let after = next.map_or(last, |(first, _)| first);
            if self.offset == chunk.start && expired(after) {
                self.units = self.units.saturating_sub(chunk.units);
                self.enter(next, after);
                continue;
            }
            let entry = read(&chunk.codes[self.offset..]);
            // An entry that a refund emptied is passed too.
            if entry.units > 0 && !expired(self.tick) {
                return;
            }
            self.units = self.units.saturating_sub(entry.units);
            self.tick += entry.gap;
            self.offset += entry.len;
            if self.offset >= chunk.codes.len() {
                self.enter(next, after);
            }
        }
    }

    /// The index of its chunk; none for the open entry.
    pub(super) fn index(&self, base: u64) -> Option<usize> {
        (self.chunk != OPEN).then(|| usize::try_from(self.chunk - base).unwrap_or(usize::MAX))
    }

    fn enter(&mut self, next: Option<(u64, usize)>, tick: u64) {
        self.tick = tick;
        match next {
            Some((_, start)) => {
                self.chunk += 1;
                self.offset = start;
            }
            None => (self.chunk, self.offset) = (OPEN, 0),
        }
    }
}
