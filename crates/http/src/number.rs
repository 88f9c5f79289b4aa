//! Whole numbers as the value of a field.

use std::sync::LazyLock;

use http::HeaderValue;

/// A number as the value of a field. One below ten thousand, as most are, needs no memory of its own,
/// and one below a thousand is made already: every response carries a few.
pub(crate) fn value(number: u64) -> HeaderValue {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    VALUES.get(index).map_or_else(|| new_value(number), HeaderValue::clone)
}

static VALUES: LazyLock<Box<[HeaderValue]>> = LazyLock::new(|| (0..1000).map(new_value).collect());

#[inline(never)]
fn new_value(number: u64) -> HeaderValue {
    match small(number) {
        Some(text) => HeaderValue::from_static(text),
        None => HeaderValue::from(number),
    }
}

/// The text of a number below ten thousand.
fn small(number: u64) -> Option<&'static str> {
    let index = usize::try_from(number).ok().filter(|index| *index < COUNT)?;
    let zeros = match index {
        0..10 => 3,
        10..100 => 2,
        100..1000 => 1,
        _ => 0,
    };
    let start = index * DIGITS;
    TEXTS.get(start + zeros..start + DIGITS)
}

const DIGITS: usize = 4;
const COUNT: usize = 10_000;

/// All of them, one after the other, each of four digits.
static TEXTS: &str = match core::str::from_utf8(&BYTES) {
    Ok(texts) => texts,
    Err(_) => "",
};

static BYTES: [u8; COUNT * DIGITS] = texts();

#[expect(clippy::large_stack_arrays, reason = "run by the compiler, never by the program")]
const fn texts() -> [u8; COUNT * DIGITS] {
    let mut texts = [b'0'; COUNT * DIGITS];
    let mut number = 0;
    while number < COUNT {
        let (mut rest, mut at) = (number, (number + 1) * DIGITS);
        while rest > 0 {
            at -= 1;
            #[expect(clippy::cast_possible_truncation, reason = "a digit")]
            let digit = (rest % 10) as u8;
            texts[at] = b'0' + digit;
            rest /= 10;
        }
        number += 1;
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_reads_as_itself() {
        let large = [10_000, 10_001, 65_536, u64::from(u32::MAX), u64::MAX];
        for number in (0..10_000).chain(large) {
            assert_eq!(value(number), number.to_string());
        }
        assert_eq!(small(10_000), None);
    }
}
