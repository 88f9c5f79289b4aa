//! How many keys there are, and how many of them are denied.

use crate::keys::{FingerprintMap, KeySlot};

/// The most keys that are remembered.
const KEYS_MAX: usize = 1 << 20;

/// Counts keys: exactly up to a million, then from a sample.
///
/// The sample consists of all keys whose hash begins with a number of zero bits. When it gets too large,
/// that number grows by one, which halves the sample. It has at least half a million keys, so that an
/// estimate is off by about 0.1 %.
#[derive(Debug, Default)]
pub(super) struct KeySample {
    /// The lanes that denied each key, one bit each.
    denied_by: FingerprintMap<u64>,
    zero_bits: u32,
}

impl KeySample {
    pub(super) fn add(&mut self, slot: &KeySlot) {
        if slot.requests == 0 || !is_sampled(slot.fingerprint, self.zero_bits) {
            return;
        }
        *self.denied_by.entry(slot.fingerprint).or_default() |= slot.denied_by;
        while self.denied_by.len() > KEYS_MAX {
            self.zero_bits += 1;
            let zero_bits = self.zero_bits;
            self.denied_by.retain(|fingerprint, _| is_sampled(*fingerprint, zero_bits));
        }
    }

    /// The number of keys.
    pub(super) fn keys(&self) -> u64 {
        (self.denied_by.len() as u64) << self.zero_bits
    }

    /// The number of keys that a lane denied at least once.
    pub(super) fn denied(&self, lane: usize) -> u64 {
        let is_denied = |lanes: &&u64| **lanes & (1 << lane) != 0;
        (self.denied_by.values().filter(is_denied).count() as u64) << self.zero_bits
    }

    pub(super) fn is_exact(&self) -> bool {
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
