//! The keyed hash that turns bytes into a fingerprint.
//!
//! A random word is added to each word of the key. Pairs of words are multiplied, the products are
//! summed in 128 bits, and the sum is folded to 64 bits by another multiplication (the NH
//! construction of UMAC). For any two keys chosen without knowledge of the random words, the
//! probability of a collision is about 1 in 2^63. Fingerprints are never shown, so an attacker
//! learns nothing from them.
//!
//! SipHash, the hash of the standard library, takes 95 instructions for a key of twelve bytes. This
//! one takes 25, and a whole check takes 250. Keys longer than 256 bytes are still hashed with
//! SipHash.

use core::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The random words of one secret.
#[derive(Clone)]
pub(crate) struct Fingerprint {
    words: [u64; WORDS],
    /// Added to the sum before it is folded.
    last: [u64; 2],
    long: SipHasher13,
}

/// The maximum length of a key that is hashed in pairs of words.
const SHORT_MAX: usize = 256;
const WORDS: usize = SHORT_MAX / 8;

impl Fingerprint {
    /// Derives all words from a secret of 128 bits.
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

    /// Sums all pairs. The last one may overlap the one before, because the length is hashed too.
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

/// Returns up to sixteen bytes as two words, which overlap because the length is hashed too.
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
mod tests;
