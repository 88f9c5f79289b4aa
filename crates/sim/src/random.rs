//! Repeatable random numbers.

use crate::number::to_float;

/// A small generator of repeatable random numbers (`SplitMix64`): a seed always gives the same trace.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates the generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns the next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high - low) + 1;
        let offset = (u128::from(self.bits()) * span) >> 64;
        low + u64::try_from(offset).unwrap_or_default()
    }

    /// Returns `true` with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// Returns an index below `len`, which must be at least one.
    pub fn index(&mut self, len: usize) -> usize {
        let last = u64::try_from(len).unwrap_or(u64::MAX) - 1;
        usize::try_from(self.between(0, last)).unwrap_or_default()
    }

    /// Returns a number from zero to one, both excluded.
    pub fn unit(&mut self) -> f64 {
        (to_float(self.bits() >> 11) + 0.5) / to_float(1 << 53)
    }

    /// Returns one of the items.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
