//! How many keys there are, and how many of them are denied.

use crate::keys::{FingerprintMap, KeySlot};

/// The most keys that are remembered.
const KEYS_MAX: usize = 1 << 20;

/// Remembers a number per key: for all keys up to a million, then for a sample.
///
/// The sample consists of all keys whose hash begins with a number of zero bits. When it gets too large,
/// that number grows by one, which halves the sample. It has at least half a million keys, so that an
/// estimate is off by about 0.1 %.
#[derive(Debug, Default)]
pub struct KeySample {
    numbers: FingerprintMap<u64>,
    zero_bits: u32,
}

impl KeySample {
    /// Changes the number of a key, which is 0 at first.
    pub fn merge(&mut self, fingerprint: u64, change: impl FnOnce(&mut u64)) {
        if !is_sampled(fingerprint, self.zero_bits) {
            return;
        }
        change(self.numbers.entry(fingerprint).or_default());
        while self.numbers.len() > KEYS_MAX {
            self.zero_bits += 1;
            let zero_bits = self.zero_bits;
            self.numbers.retain(|fingerprint, _| is_sampled(*fingerprint, zero_bits));
        }
    }

    /// Remembers the limiters that denied a key, one bit each.
    pub(super) fn add(&mut self, slot: &KeySlot) {
        if slot.requests > 0 {
            self.merge(slot.fingerprint, |denied_by| *denied_by |= slot.denied_by);
        }
    }

    /// Returns the number of keys.
    pub fn keys(&self) -> u64 {
        (self.numbers.len() as u64) << self.zero_bits
    }

    /// Returns the number of keys whose number is as `is_wanted` wants it.
    pub fn count(&self, is_wanted: impl Fn(u64) -> bool) -> u64 {
        let count = self.numbers.values().filter(|number| is_wanted(**number)).count();
        (count as u64) << self.zero_bits
    }

    /// Returns the number of keys that a limiter denied at least once.
    pub(super) fn denied(&self, limiter: usize) -> u64 {
        self.count(|limiters| limiters & (1 << limiter) != 0)
    }

    /// Returns `true` if the numbers of keys are not estimates.
    pub fn is_exact(&self) -> bool {
        self.zero_bits == 0
    }
}

fn is_sampled(fingerprint: u64, zero_bits: u32) -> bool {
    fingerprint.leading_zeros() >= zero_bits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn keys_are_counted_once_and_estimated_beyond_a_million() {
        let mut sample = KeySample::default();
        let add = |sample: &mut KeySample, count: u64| {
            let mut random = Random::new(1);
            for number in 0..count {
                let denied_by = u64::from(number % 4 == 0) << 2;
                let fingerprint = random.bits();
                sample.add(&KeySlot { fingerprint, requests: 1, denied_by, ..KeySlot::default() });
            }
        };
        add(&mut sample, 10_000);
        add(&mut sample, 10_000);
        assert_eq!((sample.keys(), sample.denied(2), sample.denied(1)), (10_000, 2500, 0));
        assert!(sample.is_exact());
        add(&mut sample, 3_000_000);
        assert!(!sample.is_exact());
        assert!(sample.keys().abs_diff(3_000_000) < 15_000, "{}", sample.keys());
        assert!(sample.denied(2).abs_diff(750_000) < 7500, "{}", sample.denied(2));
    }
}
