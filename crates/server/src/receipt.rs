//! A receipt as a short word that travels: units, epoch and tick.
//!
//! Each is written in groups of seven bits, lowest first, and the bytes in the alphabet of URLs.
//! The word is no proof: whoever may ask this service may also give back.

use slidegate::{Cost, Receipt};

/// The parts of a receipt that travel. The key and the policy are told beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReceiptWord {
    pub(crate) units: u64,
    pub(crate) epoch: u16,
    pub(crate) tick: u64,
}

impl ReceiptWord {
    pub(crate) fn new(receipt: &Receipt) -> Self {
        Self { units: receipt.units(), epoch: receipt.epoch(), tick: receipt.tick() }
    }

    /// Hands the word to a function, as letters of ASCII; it needs no memory of its own.
    #[inline]
    pub(crate) fn with_letters<R>(self, take: impl FnOnce(&[u8]) -> R) -> R {
        match self.usual_letters() {
            Some(letters) => take(&letters),
            None => self.with_any_letters(take),
        }
    }

    /// The word of a few units taken in this century: as any other, written without a loop.
    #[inline]
    fn usual_letters(self) -> Option<[u8; USUAL_LETTERS]> {
        let Self { units, epoch, tick } = self;
        let is_usual = units <= 0x7f && epoch <= 0x7f && (TICK_MIN..TICK_END).contains(&tick);
        if !is_usual {
            return None;
        }
        let group = |shift: u32| (tick >> shift & 0x7f) as u8;
        let [first, second] = [units, epoch.into()].map(|number: u64| (number & 0x7f) as u8);
        let [one, two, three, four, five] = [0, 7, 14, 21, 28].map(|shift| group(shift) | 0x80);
        let bytes = [first, second, one, two, three, four, five, group(35)];
        let joined = u64::from_be_bytes(bytes);
        Some(core::array::from_fn(|index| {
            // Ten letters of six bits, and one of the last four.
            let shifted = if index < 10 { joined >> (58 - 6 * index) } else { joined << 2 };
            ALPHABET[(shifted & 0x3f) as usize]
        }))
    }

    fn with_any_letters<R>(self, take: impl FnOnce(&[u8]) -> R) -> R {
        let mut bytes = [0; BYTES_MAX];
        let mut len = 0;
        for number in [self.units, self.epoch.into(), self.tick] {
            push_number(&mut bytes, &mut len, number);
        }
        let mut text = [0; TEXT_MAX];
        // The last group may have a byte or two: the others of it are zero, and left out again.
        let groups = bytes[..len.next_multiple_of(3)].chunks_exact(3);
        for (group, place) in groups.zip(text.chunks_exact_mut(4)) {
            let joined = u32::from_be_bytes([0, group[0], group[1], group[2]]);
            for (letter, shift) in place.iter_mut().zip([18, 12, 6, 0]) {
                *letter = ALPHABET[(joined >> shift) as usize & 0x3f];
            }
        }
        take(&text[..(len * 4).div_ceil(3)])
    }

    /// Reads a word; `None` for what was never given out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let mut bytes = [0; BYTES_MAX + 1];
        let (mut len, mut bits, mut held) = (0, 0, 0u32);
        for byte in text.bytes() {
            held = held << 6 | u32::from(value(byte)?);
            bits += 6;
            if bits >= 8 {
                bits -= 8;
                *bytes.get_mut(len)? = (held >> bits & 0xff) as u8;
                len += 1;
            }
        }
        // One spelling each: what is left over is less than a byte, and zero.
        if bits >= 6 || held & ((1 << bits) - 1) != 0 {
            return None;
        }
        let mut rest = bytes.get(..len)?;
        let units = take_number(&mut rest)?;
        let epoch = u16::try_from(take_number(&mut rest)?).ok()?;
        let tick = take_number(&mut rest)?;
        (rest.is_empty() && Cost::new(units).is_ok()).then_some(Self { units, epoch, tick })
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Of eight bytes.
const USUAL_LETTERS: usize = 11;

/// Ticks that take six bytes.
const TICK_MIN: u64 = 1 << 35;
const TICK_END: u64 = 1 << 42;

/// Ten for a number of 64 bits, three for one of 16; up to whole groups of three.
const BYTES_MAX: usize = (10_usize + 3 + 10).next_multiple_of(3);

/// The longest word.
pub(crate) const TEXT_MAX: usize = BYTES_MAX.div_ceil(3) * 4;

#[inline]
fn push_number(bytes: &mut [u8; BYTES_MAX], len: &mut usize, number: u64) {
    let mut rest = number;
    while rest > 0x7f {
        bytes[*len] = (rest & 0x7f) as u8 | 0x80;
        *len += 1;
        rest >>= 7;
    }
    bytes[*len] = (rest & 0x7f) as u8;
    *len += 1;
}

fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        // Nothing may be lost at the top.
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            // No longer than it has to be.
            return (*first != 0 || shift == 0).then_some(number);
        }
    }
    None
}

fn value(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(word: ReceiptWord) -> String {
        word.with_letters(|letters| String::from_utf8(letters.to_vec()).unwrap())
    }

    #[test]
    fn a_usual_receipt_is_eleven_letters() {
        let word = ReceiptWord { units: 1, epoch: 0, tick: 1_700_000_000_123 };
        assert_eq!(text(word), "AQD70JX_vDE");
        assert_eq!(ReceiptWord::parse("AQD70JX_vDE"), Some(word));
    }

    proptest! {
        #[test]
        fn what_was_given_out_comes_back(units in 1..1u64 << 53, epoch: u16, tick: u64) {
            let word = ReceiptWord { units, epoch, tick };
            prop_assert!(text(word).len() <= TEXT_MAX);
            prop_assert_eq!(ReceiptWord::parse(&text(word)), Some(word));
        }

        #[test]
        fn the_usual_word_is_spelt_as_any_other(
            units in 1..0x90u64,
            epoch in 0..0x90u16,
            tick in TICK_MIN / 2..TICK_END * 2,
        ) {
            let word = ReceiptWord { units, epoch, tick };
            let any = word.with_any_letters(|letters| String::from_utf8(letters.to_vec()).unwrap());
            prop_assert_eq!(text(word), any);
        }

        // Two spellings of one receipt could pass for two receipts.
        #[test]
        fn no_other_word_means_the_same(word in "[A-Za-z0-9_-]{1,34}|.{0,40}") {
            if let Some(read) = ReceiptWord::parse(&word) {
                prop_assert_eq!(text(read), word);
            }
        }
    }

    #[test]
    fn what_is_malformed_is_refused() {
        let long = "A".repeat(TEXT_MAX + 1);
        for word in
            ["", "A", "AQ", "AQD70JX_vD", "AQD70JX_vDEA", "AQD70JX_vDF", "AAD7sMDMvDE", &long]
        {
            assert_eq!(ReceiptWord::parse(word), None, "{word}");
        }
    }
}
