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
mod tests;
