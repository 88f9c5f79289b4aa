//! The sketch that counts keys the table has no room for. It can only over-count.

use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;

/// Counts of the current and the previous window for any number of keys, in fixed memory.
///
/// A count-min sketch with conservative update: four rows, and a key's count is the least of its
/// four. Both windows count whole, are never weighted and never refunded, so an estimate is never
/// below what the key has really taken.
#[derive(Debug)]
pub(super) struct Sketch {
    /// `[current rows | previous rows]`, or the other way round after an odd number of windows.
    counts: Box<[u16]>,
    swapped: bool,
    /// The longest window that was asked for.
    window: u64,
    /// Where the current window starts.
    start: u64,
    /// Units of one count, so that a policy's limit fits sixteen bits. Fixed, since a smaller one
    /// later would read old counts too low.
    quantum: u64,
}

const ROWS: usize = 4;

/// Counts in which a policy's limit is expressed at most.
const QUANTA: u64 = 50_000;

/// Columns of a sketch of about `bytes`.
fn columns_of(bytes: usize) -> usize {
    (bytes.saturating_sub(16) / (2 * ROWS * 2)).max(16)
}

impl Sketch {
    /// A sketch of about `bytes`, for a policy's `limit`.
    pub(super) fn new(bytes: usize, limit: u64) -> Self {
        let counts = vec![0; 2 * ROWS * columns_of(bytes)].into_boxed_slice();
        let quantum = limit.div_ceil(QUANTA).max(1);
        Self { counts, swapped: false, window: 1, start: 0, quantum }
    }

    pub(super) fn bytes(&self) -> usize {
        self.counts.len() * 2 + 16
    }

    /// Whether a new one of about `bytes` would be smaller.
    pub(super) fn exceeds(&self, bytes: usize) -> bool {
        self.columns() > columns_of(bytes)
    }

    /// Drops the window before the previous one.
    pub(super) fn advance(&mut self, window: u64, now: u64) {
        self.window = self.window.max(window);
        let passed = now.saturating_sub(self.start);
        if passed < self.window {
            return;
        }
        self.swapped = !self.swapped;
        self.half_mut(true).fill(0);
        if passed >= 2 * self.window {
            self.half_mut(false).fill(0);
        }
        self.start = now;
    }

    /// Whether both windows have passed.
    pub(super) fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.start) >= 2 * self.window
    }

    /// Units that the key may have taken in the current and the previous window: never less than
    /// it has.
    pub(super) fn estimate(&self, fingerprint: u64) -> u64 {
        let (current, previous) = (self.least(fingerprint, true), self.least(fingerprint, false));
        if current == u16::MAX || previous == u16::MAX {
            // The count has reached its end, so the truth may be anything.
            return u64::MAX;
        }
        (u64::from(current) + u64::from(previous)).saturating_mul(self.quantum)
    }

    /// Ticks until an estimate lets `cost` pass, if no units are added to it.
    pub(super) fn retry(&self, fingerprint: u64, limit: u64, cost: u64, now: u64) -> u64 {
        let next = (self.start + self.window).saturating_sub(now);
        let current = u64::from(self.least(fingerprint, true)).saturating_mul(self.quantum);
        if current.saturating_add(cost) <= limit { next } else { next + self.window }
    }

    /// Ticks until the previous window is dropped.
    pub(super) fn reset(&self, now: u64) -> u64 {
        (self.start + self.window).saturating_sub(now)
    }

    /// Adds to what a key has taken.
    pub(super) fn add(&mut self, fingerprint: u64, units: u64) {
        let quanta = units.div_ceil(self.quantum);
        let least = u64::from(self.least(fingerprint, true));
        self.raise_to(fingerprint, least.saturating_add(quanta));
    }

    /// Makes sure that a key's estimate is at least `units`.
    pub(super) fn raise(&mut self, fingerprint: u64, units: u64) {
        self.raise_to(fingerprint, units.div_ceil(self.quantum));
    }

    /// Appends the sketch to a snapshot.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.window);
        out.put_u64(self.start);
        out.put_u64(self.quantum);
        out.put_u64(u64::from(self.swapped));
        out.put_u64(self.counts.len() as u64);
        out.extend(self.counts.iter().flat_map(|count| count.to_le_bytes()));
    }

    /// Reads what `encode` wrote.
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, Error> {
        let window = input.take_tick()?.max(1);
        let start = input.take_tick()?;
        let quantum = input.take_u64()?.max(1);
        let swapped = input.take_u64()? != 0;
        let len = usize::try_from(input.take_u64()?).unwrap_or(usize::MAX);
        if len == 0 || !len.is_multiple_of(2 * ROWS) {
            return Err(damaged("the size of a sketch"));
        }
        let raw = input.take_raw(len.saturating_mul(2))?;
        let counts = raw.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        Ok(Self { counts: counts.collect(), swapped, window, start, quantum })
    }

    /// Takes over what another sketch remembers, of whatever size: a column's count goes to every
    /// column that shares keys with it, so no estimate gets smaller.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.window = self.window.max(other.window);
        self.start = self.start.max(other.start);
        // Counts of a smaller quantum are read as more than they are.
        self.quantum = self.quantum.max(other.quantum);
        let (from, to) = (other.columns(), self.columns());
        for current in [true, false] {
            let counts = other.half(current);
            let own = self.half_mut(current);
            for (place, count) in counts.iter().enumerate() {
                let (row, column) = (place / from, place % from);
                for target in column * to / from..=((column + 1) * to - 1) / from {
                    let own = &mut own[row * to + target];
                    *own = (*own).max(*count);
                }
            }
        }
    }

    fn raise_to(&mut self, fingerprint: u64, quanta: u64) {
        let quanta = u16::try_from(quanta).unwrap_or(u16::MAX);
        let columns = self.columns();
        let half = self.half_mut(true);
        for row in 0..ROWS {
            let count = &mut half[row * columns + column(fingerprint, row, columns)];
            *count = (*count).max(quanta);
        }
    }

    fn least(&self, fingerprint: u64, current: bool) -> u16 {
        let columns = self.columns();
        let half = self.half(current);
        let counts = (0..ROWS).map(|row| half[row * columns + column(fingerprint, row, columns)]);
        counts.min().unwrap_or(0)
    }

    fn columns(&self) -> usize {
        self.counts.len() / (2 * ROWS)
    }

    fn half(&self, current: bool) -> &[u16] {
        let (first, second) = self.counts.split_at(self.counts.len() / 2);
        if current == self.swapped { second } else { first }
    }

    fn half_mut(&mut self, current: bool) -> &mut [u16] {
        let (first, second) = self.counts.split_at_mut(self.counts.len() / 2);
        if current == self.swapped { second } else { first }
    }
}

/// A row's column. The fingerprint is mixed again, since its lower bits chose the shard.
#[expect(clippy::cast_possible_truncation, reason = "less than the number of columns")]
fn column(fingerprint: u64, row: usize, columns: usize) -> usize {
    let mixed = fingerprint.wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(16 * row as u32);
    (((mixed >> 32) * columns as u64) >> 32) as usize
}

#[cfg(test)]
mod tests;
