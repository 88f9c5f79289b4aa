//! The encoding of log entries.
//!
//! Each entry has one code: its units, and the gap in ticks to the next entry.
//!
//! ```text
//! 00..BF                 1 unit, gap 0..191
//! C0..FB  b              1 unit, gap 192 + 256 * (first - C0) + b, up to 15551
//! FC      b b b          1 unit, gap in 24 bits, least byte first
//! FD      b b b b b b    1 unit, gap in 48 bits, least byte first
//! FE      varint  code   that many units, then one of the codes above for the gap
//! FF                     never written
//! ```
//!
//! The same bytes are stored in Redis, so they do not change without a new version.

/// An entry, decoded from its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) units: u64,
    pub(super) gap: u64,
    /// The length of the code in bytes.
    pub(super) len: usize,
}

/// An encoded entry of at most eighteen bytes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Code {
    bytes: [u8; CODE_MAX],
    len: usize,
}

/// A code of one or two bytes. The second is unused if there is only one.
#[derive(Debug, Clone, Copy)]
pub(super) struct ShortCode {
    pub(super) bytes: [u8; 2],
    pub(super) len: u16,
}

pub(super) const CODE_MAX: usize = 18;

/// Gaps below this take one byte.
pub(super) const SHORT: u64 = 0xC0;
const PAIR_BASE: u64 = SHORT;
/// Gaps below this take one or two bytes.
pub(super) const PAIR_END: u64 = PAIR_BASE + 60 * 256;
/// The difference between a gap of two bytes, written with the upper byte first, and the gap.
const PAIR_FIRST: u64 = (SHORT << 8) - PAIR_BASE;
const TRIPLE: u8 = 0xFC;
const LONG: u8 = 0xFD;
/// The first byte of the code of an entry with more than one unit.
pub(super) const UNITS: u8 = 0xFE;

impl Code {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "each cast keeps the byte it is about")]
    pub(super) fn new(units: u64, gap: u64) -> Self {
        let mut code = Self { bytes: [0; CODE_MAX], len: 1 };
        if units == 1 && gap < SHORT {
            code.bytes[0] = gap as u8;
        } else {
            code.write_long(units, gap);
        }
        code
    }

    /// Encodes the usual entries, of one unit and one or two bytes. There is no branch between the
    /// two, because it would not be predictable.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "less than 2^16")]
    pub(super) fn short(gap: u64) -> Option<ShortCode> {
        if gap >= PAIR_END {
            return None;
        }
        let is_short = gap < SHORT;
        let (code, len) = if is_short { (gap << 8, 1) } else { (gap + PAIR_FIRST, 2) };
        Some(ShortCode { bytes: (code as u16).to_be_bytes(), len })
    }

    #[expect(clippy::cast_possible_truncation, reason = "each cast keeps the byte it is about")]
    fn write_long(&mut self, units: u64, gap: u64) {
        self.len = 0;
        if units != 1 {
            self.push(UNITS);
            let mut rest = units;
            while rest >= 0x80 {
                self.push(rest as u8 | 0x80);
                rest >>= 7;
            }
            self.push(rest as u8);
        }
        if gap < SHORT {
            self.push(gap as u8);
        } else if gap < PAIR_END {
            let above = gap - PAIR_BASE;
            self.push(SHORT as u8 + (above >> 8) as u8);
            self.push(above as u8);
        } else {
            let bytes = if gap < 1 << 24 { 3 } else { 6 };
            self.push(if bytes == 3 { TRIPLE } else { LONG });
            for byte in &gap.to_le_bytes()[..bytes] {
                self.push(*byte);
            }
        }
    }

    fn push(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    pub(super) fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Reads the first code of `bytes`. Invalid bytes read as an empty entry that takes them all. Only
/// a damaged snapshot could contain them, and [`is_valid`] rejects it.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Entry {
    match bytes.first() {
        Some(&byte) if u64::from(byte) < SHORT => Entry { units: 1, gap: u64::from(byte), len: 1 },
        Some(&byte) if byte < TRIPLE && bytes.len() > 1 => {
            let gap = PAIR_BASE + ((u64::from(byte) - SHORT) << 8) + u64::from(bytes[1]);
            Entry { units: 1, gap, len: 2 }
        }
        _ => read_long(bytes).unwrap_or(Entry { units: 0, gap: 0, len: bytes.len().max(1) }),
    }
}

/// Returns gap and length of the code at a position, if it is a usual one, of one unit and one or
/// two bytes, and not the last byte. Like [`Code::short`], it has no branch.
#[inline]
pub(super) fn peek_at(bytes: &[u8], at: u32) -> Option<(u64, u32)> {
    let at = at as usize;
    let pair = bytes.get(at..at + 2)?;
    let pair = u64::from(pair[0]) << 8 | u64::from(pair[1]);
    if pair >= u64::from(TRIPLE) << 8 {
        return None;
    }
    let is_short = pair < SHORT << 8;
    let gap = if is_short { pair >> 8 } else { pair - PAIR_FIRST };
    Some((gap, 2 - u32::from(is_short)))
}

#[cold]
fn read_long(bytes: &[u8]) -> Option<Entry> {
    let (units, used) = match bytes.first()? {
        &UNITS => read_varint(&bytes[1..])?,
        _ => (1, 0),
    };
    let rest = bytes.get(used..)?;
    let (gap, len) = match *rest.first()? {
        byte if u64::from(byte) < SHORT => (u64::from(byte), 1),
        TRIPLE => (little_endian(rest.get(1..4)?), 4),
        LONG => (little_endian(rest.get(1..7)?), 7),
        byte if byte < TRIPLE => {
            let high = u64::from(byte) - SHORT;
            (PAIR_BASE + (high << 8) + u64::from(*rest.get(1)?), 2)
        }
        _ => return None,
    };
    Some(Entry { units, gap, len: used + len })
}

/// Reads a number of up to 63 bits, seven per byte. Returns it with the number of bytes, including
/// the mark.
fn read_varint(bytes: &[u8]) -> Option<(u64, usize)> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(9).enumerate() {
        value |= u64::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((value, index + 2));
        }
    }
    None
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Returns the units and the sum of the gaps, if `bytes` is a sequence of complete codes.
pub(super) fn totals(bytes: &[u8]) -> Option<(u64, u64)> {
    let (mut units, mut span) = (0u64, 0u64);
    let mut rest = bytes;
    while !rest.is_empty() {
        let entry = read_long(rest)?;
        units = units.checked_add(entry.units)?;
        span = span.checked_add(entry.gap)?;
        rest = &rest[entry.len..];
    }
    Some((units, span))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // The same bytes are stored in Redis, where a script reads and writes them: a change would be a
    // change of format.
    #[test]
    fn golden_bytes() {
        let text = include_str!("../../../../../conformance/golden/log-codes.txt");
        let lines: Vec<_> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(lines.len() >= 15, "there are only {} codes", lines.len());
        for line in lines {
            let [units, gap, hex] = line.split(' ').collect::<Vec<_>>().try_into().unwrap();
            let (units, gap) = (units.parse().unwrap(), gap.parse().unwrap());
            let pairs = (0..hex.len()).step_by(2).map(|at| &hex[at..at + 2]);
            let bytes: Vec<u8> = pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect();
            assert_eq!(Code::new(units, gap).as_slice(), bytes, "{line}");
            assert_eq!(read(&bytes), Entry { units, gap, len: bytes.len() }, "{line}");
        }
    }

    proptest! {
        #[test]
        fn codes_round_trip(units in 0u64..1 << 53, gap in 0u64..1 << 48, small in 0u64..20_000) {
            for gap in [gap, small] {
                let code = Code::new(units, gap);
                let len = code.as_slice().len();
                prop_assert_eq!(read(code.as_slice()), Entry { units, gap, len });
                prop_assert_eq!(totals(code.as_slice()), Some((units, gap)));
            }
        }

        #[test]
        fn never_reads_past_the_end(bytes: Vec<u8>) {
            let entry = read(&bytes);
            prop_assert!(entry.len >= 1 && (bytes.is_empty() || entry.len <= bytes.len()));
            let _ = totals(&bytes);
        }
    }
}
