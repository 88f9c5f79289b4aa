//! The start of a quota's window in a wide log, and the sum of its units.

use std::collections::VecDeque;

use super::code::read;
use super::codes::Codes;

/// A sequence of codes with the sum of their units. The tick of the first entry is stored
/// separately, so that a chunk can be read, skipped or merged without the ones before it.
#[derive(Debug)]
pub(super) struct Chunk {
    /// The tick of the entry at `start`.
    pub(super) first: u64,
    /// The units of the entries from `start` on.
    pub(super) units: u64,
    /// The number of bytes that are no longer needed.
    pub(super) start: usize,
    pub(super) codes: Vec<u8>,
}

impl Chunk {
    /// Calls `each` with position, tick, units and length of every entry until it returns `false`.
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

    /// Returns the tick and units of every entry.
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
    /// The number of the chunk since the creation of the log, or [`OPEN`] for the open entry.
    pub(super) chunk: u64,
    pub(super) offset: usize,
}

/// The chunk number of the open entry, which is in no chunk.
pub(super) const OPEN: u64 = u64::MAX;

impl Cursor {
    /// Advances past all entries at or before `now - window`. `base` is the number of the front
    /// chunk and `last` the tick of the open entry.
    pub(super) fn advance(&mut self, chunks: &VecDeque<Chunk>, base: u64, last: u64, now: u64) {
        let horizon = now.checked_sub(self.window);
        let expired = |tick: u64| horizon.is_some_and(|horizon| tick <= horizon);
        while self.units > 0 {
            let Some(index) = self.index(base).filter(|index| *index < chunks.len()) else {
                if expired(self.tick) {
                    // The open entry has expired, and it is the last.
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
            // Entries that a refund emptied are skipped too.
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

    /// Returns the index of its chunk, or `None` for the open entry.
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
