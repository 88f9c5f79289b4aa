//! A tick with sixteen spare bits in one word.

use crate::coding::UNITS_MAX;

/// ```text
/// 63              16 15      0
/// [ tick, 48 bits   | 16 bits ]
/// ```
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Stamp(u64);

impl Stamp {
    pub(super) fn new(tick: u64, rest: u16) -> Self {
        Self(tick << 16 | u64::from(rest))
    }

    #[inline]
    pub(super) fn tick(self) -> u64 {
        self.0 >> 16
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower sixteen bits")]
    #[inline]
    pub(super) fn rest(self) -> u16 {
        self.0 as u16
    }

    /// Adds ticks. The sum stays below 2^48.
    #[inline]
    pub(super) fn add(&mut self, ticks: u64) {
        self.0 += ticks << 16;
    }

    #[inline]
    pub(super) fn set_tick(&mut self, tick: u64) {
        self.0 = tick << 16 | self.0 & 0xFFFF;
    }
}

/// A count below 2^56 with eight spare bits in one word.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Count(u64);

impl Count {
    pub(super) const MAX: u64 = UNITS_MAX;

    pub(super) fn new(count: u64, rest: u8) -> Self {
        Self(count.min(Self::MAX) << 8 | u64::from(rest))
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        self.0 >> 8
    }

    #[expect(clippy::cast_possible_truncation, reason = "the lower eight bits")]
    #[inline]
    pub(super) fn rest(self) -> u8 {
        self.0 as u8
    }

    /// Adds units. The sum stays below 2^56.
    #[inline]
    pub(super) fn add(&mut self, units: u64) {
        self.0 += units << 8;
    }

    /// Sets the count. Larger values are capped, which denies.
    #[inline]
    pub(super) fn set(&mut self, count: u64) {
        self.0 = count.min(Self::MAX) << 8 | self.0 & 0xFF;
    }
}

/// Returns sixteen bits that distinguish window lengths.
///
/// Two lengths that share them (1 in 65536 pairs) are treated as equal when a window changes, so
/// that the counts of the old one are read as those of the new one, for one window.
pub(super) fn window_tag(window: u64) -> u16 {
    #[expect(clippy::cast_possible_truncation, reason = "folds 48 bits into 16")]
    let tag = (window ^ window >> 16 ^ window >> 32) as u16;
    tag
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usual_windows_have_different_tags() {
        let windows = [1, 100, 1000, 5000, 10_000, 30_000, 60_000, 300_000, 600_000, 900_000];
        let long = [3_600_000, 21_600_000, 86_400_000, 604_800_000, 2_592_000_000];
        let mut tags: Vec<u16> = windows.iter().chain(&long).map(|w| window_tag(*w)).collect();
        tags.sort_unstable();
        tags.dedup();
        assert_eq!(tags.len(), windows.len() + long.len());
    }
}
