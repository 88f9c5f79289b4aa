//! Repeatable random numbers.

use crate::number::to_float;

/// A small generator of repeatable numbers (`SplitMix64`), so that a seed names a trace for ever.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        let span = u128::from(high - low) + 1;
        let offset = (u128::from(self.bits()) * span) >> 64;
        low + u64::try_from(offset).unwrap_or_default()
    }

    /// True `percent` times in a hundred.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.between(1, 100) <= percent
    }

    /// A position in something that has `len` of them, at least one.
    pub fn index(&mut self, len: usize) -> usize {
        let last = u64::try_from(len).unwrap_or(u64::MAX) - 1;
        usize::try_from(self.between(0, last)).unwrap_or_default()
    }

    /// A number from zero to one, both excluded.
    pub fn unit(&mut self) -> f64 {
        (to_float(self.bits() >> 11) + 0.5) / to_float(1 << 53)
    }

    /// One of several.
    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }
}
