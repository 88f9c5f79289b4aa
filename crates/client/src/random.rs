//! Random numbers for jitter.

use core::time::Duration;
use std::hash::{BuildHasher, RandomState};

/// Random numbers for jitter, from a seed. They are good enough to spread waits, but not for
/// secrets.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Creates a generator that returns the same numbers for the same seed.
    pub fn from_seed(seed: u64) -> Self {
        Self(seed)
    }

    /// Creates a generator with a different seed in every process, so that processes that were
    /// denied together retry at different times.
    pub fn from_system() -> Self {
        Self(RandomState::new().hash_one(0))
    }

    /// Returns a number below `bound`, or zero if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        // The upper half of the product needs no division and is even enough for waits.
        let product = u128::from(self.next()) * u128::from(bound);
        u64::try_from(product >> 64).unwrap_or(0)
    }

    /// Returns a time from zero up to `most`.
    pub(crate) fn within(&mut self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.below(nanos.saturating_add(1)))
    }

    /// Returns the next number of `SplitMix64`, for which every seed is equally good.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests;
