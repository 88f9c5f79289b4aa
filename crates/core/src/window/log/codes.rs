//! The codes of a log one by one, oldest first.

use super::code::{Entry, read};

/// Reads codes from a place in a block up to another. When that lies before the first, the codes
/// go on at the front of the block once they come to its end or to [`TURN`].
#[derive(Debug, Clone)]
pub(super) struct Codes<'a> {
    bytes: &'a [u8],
    at: usize,
    end: usize,
}

/// Stands where a code would begin that did not fit before the end of the block.
pub(super) const TURN: u8 = 0xFF;

impl<'a> Codes<'a> {
    #[inline]
    pub(super) fn new(bytes: &'a [u8], at: usize, end: usize) -> Self {
        Self { bytes, at, end }
    }

    /// The place of the next code, or behind the last.
    pub(super) fn at(&self) -> usize {
        self.at
    }

    /// The place behind the last code before they go on at the front; none if they do not.
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
