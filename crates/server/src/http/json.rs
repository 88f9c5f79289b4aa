//! JSON, written straight into the bytes of an answer.

use core::cell::Cell;
use core::ops::Range;
use core::time::Duration;

use hyper::body::Bytes;

thread_local! {
    /// Where small answers are written, one after the other.
    static SCRATCH: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A thread keeps no more than this.
const SCRATCH_MAX: usize = 4096;

/// Bytes of JSON to be. Whoever writes puts the brackets; commas come by themselves.
#[derive(Debug)]
pub(crate) struct Json {
    bytes: Vec<u8>,
}

impl Json {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut bytes = SCRATCH.take();
        bytes.reserve(capacity);
        Self { bytes }
    }

    /// A small answer is copied, into memory that fits: to hand on what is larger than it has to be
    /// takes another block of memory.
    pub(crate) fn finish(mut self) -> Bytes {
        if self.bytes.capacity() > SCRATCH_MAX {
            return self.bytes.into();
        }
        let answer = Bytes::copy_from_slice(&self.bytes);
        self.bytes.clear();
        SCRATCH.set(self.bytes);
        answer
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes these bytes again.
    #[inline]
    pub(crate) fn again(&mut self, bytes: Range<usize>) {
        self.bytes.extend_from_within(bytes);
    }

    /// Opens an object or a list.
    #[inline]
    pub(crate) fn open(&mut self, bracket: u8) {
        self.comma();
        self.bytes.push(bracket);
    }

    #[inline]
    pub(crate) fn close(&mut self, bracket: u8) {
        self.bytes.push(bracket);
    }

    /// The name of a member, which needs no escape.
    #[inline]
    pub(crate) fn name(&mut self, name: &'static str) {
        self.comma();
        self.bytes.push(b'"');
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(b"\":");
    }

    /// JSON as it stands, commas included.
    #[inline]
    pub(crate) fn raw(&mut self, json: &'static str) {
        self.bytes.extend_from_slice(json.as_bytes());
    }

    /// Printable ASCII that needs no escape, such as receipts and names of policies, without its quotes.
    #[inline]
    pub(crate) fn letters(&mut self, letters: &[u8]) {
        self.bytes.extend_from_slice(letters);
    }

    /// A name that comes from outside.
    pub(crate) fn any_name(&mut self, name: &str) {
        self.text(name);
        self.bytes.push(b':');
    }

    #[inline]
    pub(crate) fn text(&mut self, text: &str) {
        self.comma();
        self.bytes.push(b'"');
        if text.bytes().all(is_plain) {
            self.bytes.extend_from_slice(text.as_bytes());
        } else {
            self.escape(text);
        }
        self.bytes.push(b'"');
    }

    #[inline]
    pub(crate) fn number(&mut self, number: u64) {
        self.comma();
        self.raw_number(number);
    }

    #[inline]
    pub(crate) fn bool(&mut self, value: bool) {
        self.comma();
        self.bytes.extend_from_slice(if value { b"true" } else { b"false" });
    }

    pub(crate) fn null(&mut self) {
        self.comma();
        self.bytes.extend_from_slice(b"null");
    }

    /// Seconds, to the millisecond, rounded up: who waits them has waited long enough.
    #[inline]
    pub(crate) fn seconds(&mut self, duration: Duration) {
        self.comma();
        self.raw_seconds(duration);
    }

    /// As [`seconds`](Json::seconds), right behind a name.
    #[inline]
    pub(crate) fn raw_seconds(&mut self, duration: Duration) {
        let part = duration.subsec_nanos().div_ceil(1_000_000);
        let (seconds, part) = match part {
            1000 => (duration.as_secs().saturating_add(1), 0),
            part => (duration.as_secs(), part),
        };
        self.raw_number(seconds);
        if part > 0 {
            let [_, digits @ ..] = four_digits(part);
            self.bytes.extend_from_slice(&[b'.', digits[0], digits[1], digits[2]]);
        }
    }

    /// A number right behind a name.
    #[inline]
    pub(crate) fn raw_number(&mut self, number: u64) {
        match u32::try_from(number) {
            Ok(small @ ..10_000) => self.few_digits(small),
            _ => self.many_digits(number),
        }
    }

    /// Below 10,000, as most numbers are: all four digits are written at once, without those in front,
    /// and then as many are kept as there are.
    #[inline]
    fn few_digits(&mut self, number: u32) {
        let count =
            1 + usize::from(number > 9) + usize::from(number > 99) + usize::from(number > 999);
        let digits = u32::from_le_bytes(four_digits(number)) >> (8 * (4 - count));
        let end = self.bytes.len() + count;
        self.bytes.extend_from_slice(&digits.to_le_bytes());
        self.bytes.truncate(end);
    }

    fn many_digits(&mut self, number: u64) {
        let mut digits = [0; DIGITS_MAX];
        let mut at = DIGITS_MAX;
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = digit(rest);
            rest /= 10;
            if rest == 0 || at == 0 {
                break;
            }
        }
        self.bytes.extend_from_slice(&digits[at..]);
    }

    /// Between two values, and not after a bracket or a name.
    #[inline]
    pub(crate) fn comma(&mut self) {
        if !matches!(self.bytes.last(), None | Some(b'{' | b'[' | b':')) {
            self.bytes.push(b',');
        }
    }

    #[cold]
    fn escape(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '"' => self.bytes.extend_from_slice(b"\\\""),
                '\\' => self.bytes.extend_from_slice(b"\\\\"),
                // `<` and `>` too, for whoever pastes it into a page.
                '\0'..='\u{1f}' | '<' | '>' | '\u{7f}' => {
                    let code = u32::from(character);
                    self.bytes.extend_from_slice(b"\\u00");
                    for shift in [4, 0] {
                        let nibble = (code >> shift) & 0xf;
                        self.bytes.push(b"0123456789abcdef"[nibble as usize]);
                    }
                }
                character => {
                    let mut bytes = [0; 4];
                    self.bytes.extend_from_slice(character.encode_utf8(&mut bytes).as_bytes());
                }
            }
        }
    }
}

/// Of the largest `u64`.
const DIGITS_MAX: usize = 20;

/// The last four digits, zeros in front.
#[inline]
fn four_digits(number: u32) -> [u8; 4] {
    let pair = |pair: u32| PAIRS[(pair % 100) as usize];
    let ([thousands, hundreds], [tens, ones]) = (pair(number / 100), pair(number));
    [thousands, hundreds, tens, ones]
}

/// The digits of all numbers below 100.
static PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut number: u8 = 0;
    while number < 100 {
        pairs[number as usize] = [b'0' + number / 10, b'0' + number % 10];
        number += 1;
    }
    pairs
};

#[inline]
fn digit(number: u64) -> u8 {
    b'0' + (number % 10) as u8
}

#[inline]
fn is_plain(byte: u8) -> bool {
    matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\' | b'<' | b'>')
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[test]
    fn serde_reads_what_was_written() {
        let texts = ["", "plain", "\"\\\n\0</script>\u{7f}", "Grüße \u{1f980}", "\u{2028}"];
        let mut json = Json::with_capacity(0);
        json.open(b'{');
        for text in texts {
            json.any_name(text);
            json.open(b'[');
            json.text(text);
            json.number(u64::MAX);
            json.number(0);
            json.bool(true);
            json.null();
            json.open(b'{');
            json.close(b'}');
            json.close(b']');
        }
        json.name("last");
        json.bool(false);
        json.close(b'}');
        let read: Value = serde_json::from_slice(&json.finish()).unwrap();
        for text in texts {
            assert_eq!(read[text], json!([text, u64::MAX, 0, true, null, {}]));
        }
        assert_eq!(read["last"], json!(false));
    }

    #[test]
    fn numbers_of_any_length_are_written() {
        let ends = (0..20).map(|digits| 10_u64.pow(digits)).flat_map(|end| [end - 1, end, end + 1]);
        for number in (0..=10_001).chain(ends).chain([u64::MAX]) {
            let mut json = Json::with_capacity(0);
            json.number(number);
            assert_eq!(json.finish(), number.to_string());
        }
    }

    #[test]
    fn seconds_round_up_to_the_millisecond() {
        for (nanos, text) in [
            (0, "0"),
            (1, "0.001"),
            (59_997_000_000, "59.997"),
            (999_000_001, "1"),
            (1_000_000_000, "1"),
            (1_050_000_000, "1.050"),
        ] {
            let mut json = Json::with_capacity(0);
            json.seconds(Duration::from_nanos(nanos));
            assert_eq!(json.finish(), text, "{nanos}");
        }
    }
}
