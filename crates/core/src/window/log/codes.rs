//! Iterates over the codes of a log, oldest first.

use super::code::{Entry, read};

/// Reads codes from one position in a block to another. If the end is before the start, the codes
/// continue at the front after the end of the block or after [`TURN`].
#[derive(Debug, Clone)]
pub(super) struct Codes<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// Marks the position of a code that did not fit before the end of the block.
pub(super) const TURN: u8 = 0xFF;

impl<'a> Codes<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, end: usize) -> Self {
        Self { bytes, at, end }
    }

    /// Returns the position of the next code, or the end.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// Returns the position after the last code before the wrap-around, or `None` if there is none.
    pub(super) fn turn(mut self) -> Option<usize> {
        if self.at <= self.end {
            return None;
        }
        while !self.is_at_turn() {
            self.next();
        }
        Some(self.at)
    }

    #[inline]
    fn is_at_turn(&self) -> bool {
        self.bytes.get(self.at).is_none_or(|byte| *byte == TURN)
    }
}

impl Iterator for Codes<'_> {
    type Item = Entry;

    #[inline]
    fn next(&mut self) -> Option<Entry> {
        if self.at > self.end && self.is_at_turn() {
            self.at = 0;
        }
        let stop = if self.at > self.end { self.bytes.len() } else { self.end };
        let rest = self.bytes.get(self.at..stop).filter(|rest| !rest.is_empty())?;
        let entry = read(rest);
        self.at += entry.len;
        Some(entry)
    }
}
