//! Keys formed on the fly.

/// A buffer for keys such as `user:000aaaabcde`.
///
/// A harness that fetches its keys from memory pays a cache miss for each, and one that writes
/// digits one by one lets the processor stall when they are read as words: both hide the
/// difference between the limiters. So a number is spelled in letters, four bits each, in
/// registers, and written at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    bytes: [u8; 16],
}

impl Key {
    /// The key of number 0.
    pub(crate) const fn new() -> Self {
        Self { bytes: *b"user:000aaaaaaaa" }
    }

    /// Makes this the key of `number`.
    #[inline]
    pub(crate) fn write(&mut self, number: u32) -> &str {
        self.spell(number);
        self.as_str()
    }

    /// Compiled once, so that it takes the same time for every caller, and no caller has the key in
    /// registers.
    #[inline(never)]
    fn spell(&mut self, number: u32) {
        self.bytes = together(u64::from_le_bytes(*b"user:000"), letters(number));
    }

    /// Returns the current key.
    #[inline]
    #[expect(unsafe_code, reason = "a UTF-8 check would cost as much as a clock read on every key")]
    pub(crate) fn as_str(&self) -> &str {
        // SAFETY: `new` and `write` fill the buffer with ASCII.
        unsafe { core::str::from_utf8_unchecked(&self.bytes) }
    }
}

/// A letter from `a` to `p` for every four bits, the lowest first.
#[inline]
fn letters(number: u32) -> u64 {
    let mut spread = u64::from(number);
    for (by, mask) in
        [(16, 0x0000_ffff_0000_ffff), (8, 0x00ff_00ff_00ff_00ff), (4, 0x0f0f_0f0f_0f0f_0f0f)]
    {
        spread = (spread | spread << by) & mask;
    }
    spread + u64::from_le_bytes([b'a'; 8])
}

/// Joins two words into sixteen bytes that one instruction writes, so that a read of all of them, as in
/// a copy, does not wait for two stores.
#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, clippy::cast_possible_wrap, reason = "compilers write two words by two")]
fn together(first: u64, second: u64) -> [u8; 16] {
    use core::arch::x86_64::_mm_set_epi64x;
    // SAFETY: every x86-64 processor has the instruction.
    let both = unsafe { _mm_set_epi64x(second as i64, first as i64) };
    // SAFETY: both types are any sixteen bytes.
    unsafe { core::mem::transmute(both) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn together(first: u64, second: u64) -> [u8; 16] {
    (u128::from(second) << 64 | u128::from(first)).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn keys_are_text_and_distinct() {
        let mut key = Key::new();
        assert_eq!(key.as_str(), "user:000aaaaaaaa");
        assert_eq!(key.write(0), "user:000aaaaaaaa");
        assert_eq!(key.write(0xfedc_ba12), "user:000cbklmnop");
        let seen: HashSet<_> =
            (0..1_000_000).step_by(7).map(|number| key.write(number).to_owned()).collect();
        assert_eq!(seen.len(), 142_858);
        assert!(seen.iter().all(|key| key.is_ascii()));
    }
}
