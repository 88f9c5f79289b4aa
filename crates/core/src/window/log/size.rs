//! How many bytes the codes of a log will take: what its block is chosen by.
//!
//! Guesses, all of them: a block that turns out too small is outgrown, one that is too large is
//! given back in part.

use super::code::{PAIR_END, SHORT};

/// Bytes of `limit` units in `window` ticks, at the most, if they come at random; or less, if the
/// `units` so far had shorter codes: `used` bytes.
pub(super) fn at_limit(used: u64, units: u64, limit: u64, window: u64) -> u64 {
    let seen = used.saturating_mul(ONE) / units.max(1);
    // The first few units give the length of codes to no better than a quarter.
    let a_code = random_code(window / limit.max(1)).min(seen + seen / 4).max(ONE);
    // Three standard deviations of the sum of `limit` codes of one or two bytes.
    let pairs = (a_code - ONE).min(ONE);
    let variance = limit.saturating_mul(pairs * (ONE - pairs)) / (ONE * ONE);
    (limit.saturating_mul(a_code) / ONE).saturating_add(3 * variance.isqrt() + 1)
}

/// Bytes of a window of `window` ticks at its fullest, if it goes on like the `used` bytes of the
/// `units` in the `span` so far, and these came at random: then `units` give no more than the rate
/// to a part in the root of as many, and the sum of codes of up to two bytes strays by the root
/// of twice as many; both two times over.
pub(super) fn at_rate(used: u64, units: u64, span: u64, window: u64) -> u64 {
    let bytes = used.saturating_mul(window) / span.max(1);
    let unsure = bytes.saturating_mul(2) / units.isqrt().max(1);
    let spread = bytes.saturating_mul(8).isqrt();
    bytes.saturating_add(unsure.max(spread))
}

/// One byte, in fixed point.
const ONE: u64 = 256;

/// Bytes of a code, in fixed point, if entries come at random, `gap` ticks apart on average.
fn random_code(gap: u64) -> u64 {
    ONE + longer_than(SHORT, gap) + 2 * longer_than(PAIR_END, gap)
}

/// The share of random gaps, `mean` on average, that are at least `least`: `exp(-least / mean)`,
/// by the first terms of the series of its inverse.
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
    fn long_gaps_are_as_frequent_as_the_exponential_says() {
        for (least, mean, share) in [(192, 600, 186), (192, 60, 10), (1000, 1000, 94)] {
            let found = longer_than(least, mean);
            assert!(found.abs_diff(share) <= 1, "{least} of {mean}: {found}, not {share}");
        }
        assert_eq!(longer_than(15_552, 60), 0);
    }

    // 1000 a minute take 1.04 bytes each, and 100 a minute 1.73.
    #[test]
    fn the_limits_block_holds_what_the_limit_lets_through() {
        assert_eq!(at_limit(60, 56, 1000, 60_000), 1058);
        assert_eq!(at_limit(20, 12, 100, 60_000), 186);
        // All at once: short codes.
        assert_eq!(at_limit(20, 20, 100, 60_000), 138);
    }
}
