//! Repeatable random numbers.

use crate::rounding::to_float;

/// Splitmix64: one word of state, the same sequence for the same seed.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    /// Creates the sequence of a seed.
    pub(crate) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Any 64 bits.
    #[inline]
    pub(crate) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    /// A number below `bound`, uniform to within one part in 2^32 / bound.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        // The product of two 32-bit numbers, shifted by 32, fits in 32 bits.
        (((self.bits() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A number above zero, at most one.
    #[inline]
    pub(crate) fn unit(&mut self) -> f64 {
        // 2^53 steps, all of which a float can hold.
        to_float((self.bits() >> 11) + 1) / 9_007_199_254_740_992.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_sequence() {
        let (mut one, mut two) = (Random::new(7), Random::new(7));
        assert!((0..100).all(|_| one.bits() == two.bits()));
        assert_ne!(Random::new(7).bits(), Random::new(8).bits());
    }

    #[test]
    fn below_covers_its_range_evenly() {
        let mut random = Random::new(1);
        let mut seen = [0_u32; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
    }

    #[test]
    fn unit_is_above_zero_and_half_on_average() {
        let mut random = Random::new(2);
        let draws: Vec<f64> = (0..100_000).map(|_| random.unit()).collect();
        assert!(draws.iter().all(|unit| *unit > 0.0 && *unit <= 1.0));
        let mean = draws.iter().sum::<f64>() / 100_000.0;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
