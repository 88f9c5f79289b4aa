//! Keys formed on the fly.

/// How many keys can be told apart: seven digits.
pub(crate) const KEYS_MAX: u32 = 10_000_000;

/// A buffer for keys such as `user:0001234`.
///
/// A harness that fetches its keys from memory pays a cache miss for each, which hides the
/// difference between the limiters; forming one here takes a few nanoseconds and no allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    bytes: [u8; 16],
}

const LEN: usize = 12;

/// `00`, `01`, up to `99`.
const PAIRS: [[u8; 2]; 100] = pairs();

impl Key {
    /// The key of number 0.
    pub(crate) const fn new() -> Self {
        Self { bytes: *b"user:0000000\0\0\0\0" }
    }

    /// Makes this the key of `number`, of which the last seven digits count.
    #[inline]
    pub(crate) fn write(&mut self, number: u32) -> &str {
        let pair = |value: u32| PAIRS[(value % 100) as usize];
        self.bytes[5] = pair(number / 1_000_000 % 10)[1];
        self.bytes[6..8].copy_from_slice(&pair(number / 10_000));
        self.bytes[8..10].copy_from_slice(&pair(number / 100));
        self.bytes[10..12].copy_from_slice(&pair(number));
        self.as_str()
    }

    /// The key as it stands.
    #[inline]
    #[expect(unsafe_code, reason = "a UTF-8 check would cost as much as a clock read on every key")]
    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: `new` fills the buffer with ASCII and `write` puts ASCII digits only.
        unsafe { core::str::from_utf8_unchecked(&self.bytes[..LEN]) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "a digit fits in a byte")]
const fn pairs() -> [[u8; 2]; 100] {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_formatted_numbers() {
        let mut key = Key::new();
        assert_eq!(key.as_str(), "user:0000000");
        for number in (0..KEYS_MAX).step_by(977).chain([9, 10, 99, 100, KEYS_MAX - 1]) {
            assert_eq!(key.write(number), format!("user:{number:07}"));
        }
    }
}
