//! The sketch that counts units of keys that do not fit in the table. It can only over-count.

use crate::coding::{Reader, Writer, damaged};
use crate::error::Error;

/// Counts of the current and the previous window for any number of keys, in fixed memory.
///
/// A count-min sketch with conservative update: a key has a count in each of four rows, and its
/// estimate is the least of them. Both windows count fully and nothing is refunded, so an estimate is
/// never below the units that the key has taken within the sketch's window, nor above those of two
/// windows if no other key shares all four counts.
///
/// All counts of a key are in one [`Block`], for both windows: an estimate takes one cache miss instead
/// of eight. Keys spread over blocks less evenly than over single counts, so estimates are slightly
/// higher.
#[derive(Debug)]
pub(super) struct Sketch {
    blocks: Box<[Block]>,
    /// Which half of a block is the current window.
    current: usize,
    window: u64,
    /// The start of the current window.
    start: u64,
    /// Units per count, so that a policy's limit fits in sixteen bits.
    quantum: u64,
}

/// The counts of the keys that share it, by window and row.
#[derive(Debug, Clone)]
#[repr(align(128))]
struct Block([[[u16; COLUMNS]; ROWS]; 2]);

const ROWS: usize = 4;
const COLUMNS: usize = 8;
const COUNTS: usize = 2 * ROWS * COLUMNS;

const _: () = assert!(size_of::<Block>() == 128, "two cache lines that are fetched together");

/// Marks a snapshot of blocks. Snapshots of older versions, which had no blocks or assigned keys to
/// them differently, have a number from 0 to 3 instead and are refused: their counts cannot be
/// assigned to blocks without under-counting keys.
const BLOCKS: u64 = 4;

/// The most counts that a policy's limit takes.
const QUANTA: u64 = 50_000;

/// Returns the units per count of a sketch for a policy's `limit`.
pub(super) fn quantum_for(limit: u64) -> u64 {
    limit.div_ceil(QUANTA).max(1)
}

/// Returns the number of blocks of a sketch of about `bytes`.
fn blocks_of(bytes: usize) -> usize {
    (bytes.saturating_sub(16) / size_of::<Block>()).max(2)
}

impl Sketch {
    /// The least bytes of a sketch.
    pub(super) const BYTES_MIN: usize = 2 * size_of::<Block>() + 16;

    /// Creates a sketch of about `bytes`.
    pub(super) fn new(bytes: usize, window: u64, quantum: u64, now: u64) -> Self {
        let blocks = vec![Block::EMPTY; blocks_of(bytes)].into_boxed_slice();
        Self { blocks, current: 0, window, start: now, quantum }
    }

    pub(super) fn window(&self) -> u64 {
        self.window
    }

    pub(super) fn quantum(&self) -> u64 {
        self.quantum
    }

    /// Makes the window longer. Counts that were dropped already are not restored.
    pub(super) fn stretch(&mut self, window: u64) {
        self.window = self.window.max(window);
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.blocks) + 16
    }

    /// Shrinks the sketch to about `bytes`. Estimates can only rise: where two counts are merged, the
    /// higher one is kept.
    pub(super) fn shrink(&mut self, bytes: usize) {
        if self.blocks.len() > blocks_of(bytes) {
            let mut smaller = Self::new(bytes, self.window, self.quantum, self.start);
            smaller.absorb(self);
            *self = smaller;
        }
    }

    /// Drops the window before the previous one.
    pub(super) fn advance(&mut self, now: u64) {
        let passed = now.saturating_sub(self.start);
        if passed < self.window {
            return;
        }
        let previous = self.current;
        self.current = 1 - previous;
        for Block(halves) in &mut self.blocks {
            halves[self.current] = Block::EMPTY_HALF;
            if passed >= 2 * self.window {
                halves[previous] = Block::EMPTY_HALF;
            }
        }
        // Not `now`: the counts would expire later than `retry` has reported.
        self.start = now - passed % self.window;
    }

    /// Returns `true` if both windows have passed.
    pub(super) fn is_over(&self, now: u64) -> bool {
        now.saturating_sub(self.start) >= 2 * self.window
    }

    /// Returns the units that the key may have taken in the current and the previous window, which are
    /// at least those that it has taken.
    pub(super) fn estimate(&self, fingerprint: u64) -> u64 {
        let block = self.block(fingerprint);
        let current = block.least(fingerprint, self.current);
        let previous = block.least(fingerprint, 1 - self.current);
        if current == u16::MAX || previous == u16::MAX {
            // The count is saturated, so the true value may be anything.
            return u64::MAX;
        }
        (u64::from(current) + u64::from(previous)).saturating_mul(self.quantum)
    }

    /// Returns the ticks until an estimate permits `cost`, if no units are added to it: zero if it
    /// does now.
    pub(super) fn retry(&self, fingerprint: u64, limit: u64, cost: u64, now: u64) -> u64 {
        if self.estimate(fingerprint).saturating_add(cost) <= limit {
            return 0;
        }
        let next = (self.start + self.window).saturating_sub(now);
        let current = self.block(fingerprint).least(fingerprint, self.current);
        let current = u64::from(current).saturating_mul(self.quantum);
        if current.saturating_add(cost) <= limit { next } else { next + self.window }
    }

    /// Returns the ticks until the previous window is dropped.
    pub(super) fn reset(&self, now: u64) -> u64 {
        (self.start + self.window).saturating_sub(now)
    }

    /// Adds units of a key.
    pub(super) fn add(&mut self, fingerprint: u64, units: u64) {
        let quanta = units.div_ceil(self.quantum);
        let least = u64::from(self.block(fingerprint).least(fingerprint, self.current));
        self.raise_to(fingerprint, least.saturating_add(quanta));
    }

    /// Raises a key's estimate to at least `units`.
    pub(super) fn raise(&mut self, fingerprint: u64, units: u64) {
        self.raise_to(fingerprint, units.div_ceil(self.quantum));
    }

    /// Appends the sketch to a snapshot.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.put_u64(self.window);
        out.put_u64(self.start);
        out.put_u64(self.quantum);
        out.put_u64(BLOCKS + self.current as u64);
        out.put_u64((self.blocks.len() * COUNTS) as u64);
        let counts = self.blocks.iter().flat_map(Block::counts);
        out.extend(counts.flat_map(u16::to_le_bytes));
    }

    /// Reads what `encode` wrote.
    pub(super) fn decode(input: &mut &[u8]) -> Result<Self, Error> {
        let window = input.take_tick()?.max(1);
        let start = input.take_tick()?;
        let quantum = input.take_u64()?.max(1);
        let current = match input.take_u64()? {
            BLOCKS => 0,
            number if number == BLOCKS + 1 => 1,
            _ => return Err(damaged("the layout of a sketch")),
        };
        let len = usize::try_from(input.take_u64()?).unwrap_or(usize::MAX);
        if len == 0 || !len.is_multiple_of(COUNTS) {
            return Err(damaged("the size of a sketch"));
        }
        let raw = input.take_raw(len.saturating_mul(2))?;
        let blocks = raw.chunks_exact(2 * COUNTS).map(Block::from_bytes).collect();
        Ok(Self { blocks, current, window, start, quantum })
    }

    /// Adds the counts of another sketch of any size and window. They count for at least one window of
    /// this sketch from now on, if both sketches were advanced to now. The counts of a block go to every
    /// block that shares keys with it, so no estimate decreases.
    pub(super) fn absorb(&mut self, other: &Self) {
        self.start = self.start.max(other.start);
        let quanta = |count: u16| match count {
            // Saturated, so the true value may be anything.
            u16::MAX => u16::MAX,
            _ => {
                let units = u64::from(count).saturating_mul(other.quantum);
                u16::try_from(units.div_ceil(self.quantum)).unwrap_or(u16::MAX)
            }
        };
        let halves = [(self.current, other.current), (1 - self.current, 1 - other.current)];
        let (from, to) = (other.blocks.len(), self.blocks.len());
        for (number, block) in other.blocks.iter().enumerate() {
            for target in number * to / from..=((number + 1) * to - 1) / from {
                for (own, theirs) in halves {
                    let own = self.blocks[target].0[own].as_flattened_mut();
                    for (own, count) in own.iter_mut().zip(block.0[theirs].as_flattened()) {
                        *own = (*own).max(quanta(*count));
                    }
                }
            }
        }
    }

    fn raise_to(&mut self, fingerprint: u64, quanta: u64) {
        let quanta = u16::try_from(quanta).unwrap_or(u16::MAX);
        let number = block_of(fingerprint, self.blocks.len());
        let rows = &mut self.blocks[number].0[self.current];
        for (row, counts) in rows.iter_mut().enumerate() {
            let count = &mut counts[column(fingerprint, row)];
            *count = (*count).max(quanta);
        }
    }

    fn block(&self, fingerprint: u64) -> &Block {
        &self.blocks[block_of(fingerprint, self.blocks.len())]
    }
}

impl Block {
    const EMPTY_HALF: [[u16; COLUMNS]; ROWS] = [[0; COLUMNS]; ROWS];
    const EMPTY: Self = Self([Self::EMPTY_HALF; 2]);

    /// Returns the least count of a key in one window.
    fn least(&self, fingerprint: u64, half: usize) -> u16 {
        let rows = self.0[half].iter().enumerate();
        rows.map(|(row, counts)| counts[column(fingerprint, row)]).min().unwrap_or(0)
    }

    fn counts(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.as_flattened().as_flattened().iter().copied()
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let mut block = Self::EMPTY;
        let counts = block.0.as_flattened_mut().as_flattened_mut();
        for (count, pair) in counts.iter_mut().zip(bytes.chunks_exact(2)) {
            *count = u16::from_le_bytes([pair[0], pair[1]]);
        }
        block
    }
}

/// Returns the block of a key, from the upper half of its bits.
///
/// These bits also select the slot. So keys that are neighbors in the table are usually in one block:
/// a key and the one that it replaces take one cache miss instead of two.
fn block_of(fingerprint: u64, blocks: usize) -> usize {
    (((fingerprint >> 32) * blocks as u64) >> 32) as usize
}

/// Returns the column of a key in a row, from three bits. Mixes the fingerprint first, because its
/// lower bits are equal within a shard, and its upper bits within a block.
#[expect(clippy::cast_possible_truncation, reason = "less than the number of columns")]
fn column(fingerprint: u64, row: usize) -> usize {
    let mixed = fingerprint.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> (20 + 3 * row)) as usize % COLUMNS
}

#[cfg(test)]
mod tests;
