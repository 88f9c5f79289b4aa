//! Estimates the bytes of a log, to choose the size of its block.
//!
//! These are only estimates: a block that is too small grows, and one that is too large is partly
//! released.

use super::code::{PAIR_END, SHORT};

/// Returns the maximum bytes of `limit` units in `window` ticks, if they arrive at random, or less
/// if the `units` so far took only `used` bytes.
pub(super) fn at_limit(used: u64, units: u64, limit: u64, window: u64) -> u64 {
    let seen = used.saturating_mul(ONE) / units.max(1);
    // The first units give the length of codes only within a quarter.
    let a_code = random_code(window / limit.max(1)).min(seen + seen / 4).max(ONE);
    // Three standard deviations of the sum of `limit` codes of one or two bytes.
    let pairs = (a_code - ONE).min(ONE);
    let variance = limit.saturating_mul(pairs * (ONE - pairs)) / (ONE * ONE);
    (limit.saturating_mul(a_code) / ONE).saturating_add(3 * variance.isqrt() + 1)
}

/// Returns the bytes of a full window of `window` ticks, extrapolated from the `used` bytes of the
/// `units` in the `span` so far.
///
/// If units arrive at random, the relative error of the rate is one over the square root of
/// `units`, and the sum of codes of up to two bytes varies by the square root of twice their
/// number. Both are included twice.
pub(super) fn at_rate(used: u64, units: u64, span: u64, window: u64) -> u64 {
    let bytes = used.saturating_mul(window) / span.max(1);
    let unsure = bytes.saturating_mul(2) / units.isqrt().max(1);
    let spread = bytes.saturating_mul(8).isqrt();
    bytes.saturating_add(unsure.max(spread))
}

/// One byte in fixed point.
const ONE: u64 = 256;

/// Returns the bytes of a code in fixed point, if entries arrive at random, with gaps of `gap` ticks on
/// average.
fn random_code(gap: u64) -> u64 {
    ONE + longer_than(SHORT, gap) + 2 * longer_than(PAIR_END, gap)
}

/// Returns the share of random gaps with this `mean` that are at least `least`: `exp(-least /
/// mean)`, from the first terms of the series of its inverse.
fn longer_than(least: u64, mean: u64) -> u64 {
    let ratio = least.saturating_mul(ONE) / mean.max(1);
    if ratio > 16 * ONE {
        return 0;
    }
    let (mut term, mut sum) = (ONE, ONE);
    for number in 1..24 {
        term = term * ratio / (number * ONE);
        sum += term;
    }
    ONE * ONE / sum
}

#[cfg(test)]
mod tests {
    use super::*;

    // exp(-0.32), exp(-3.2) and exp(-1), times 256.
    #[test]
    fn long_gaps_follow_the_exponential_distribution() {
        for (least, mean, share) in [(192, 600, 186), (192, 60, 10), (1000, 1000, 94)] {
            let found = longer_than(least, mean);
            assert!(found.abs_diff(share) <= 1, "{least} of {mean}: {found}, not {share}");
        }
        assert_eq!(longer_than(15_552, 60), 0);
    }

    // 1000 per minute take 1.04 bytes each, and 100 per minute take 1.73.
    #[test]
    fn the_block_fits_the_limit() {
        assert_eq!(at_limit(60, 56, 1000, 60_000), 1058);
        assert_eq!(at_limit(20, 12, 100, 60_000), 186);
        // All at once: short codes.
        assert_eq!(at_limit(20, 20, 100, 60_000), 138);
    }
}
