//! Durations as text: `500ms`, `10s`, `1h30m`.

use core::time::Duration;

use crate::error::{Error, ErrorKind};

/// Units and their nanoseconds, longest first.
const UNITS: [(&str, u64); 8] = [
    ("w", 7 * 86_400_000_000_000),
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// Parses a duration: whole numbers with units, such as `500ms`, `10s` or `1h30m`. The units are
/// `w`, `d`, `h`, `m`, `s`, `ms`, `us` and `ns`.
///
/// # Errors
///
/// Returns an error if a number has no unit, a unit is unknown, or the sum exceeds 584 years.
pub fn parse_duration(text: &str) -> Result<Duration, Error> {
    let total = if text.is_empty() { None } else { nanos(text) };
    total.map(Duration::from_nanos).ok_or_else(|| {
        let message = format!(
            "invalid duration {text:?}: use a number with a unit, such as 500ms, 10s, 5m, \
             1h30m or 7d"
        );
        Error::new(ErrorKind::Window, message)
    })
}

/// Formats a duration in its largest exact unit, such as `90m` or `1500ms`. [`parse_duration`]
/// reads it.
pub fn format_duration(duration: Duration) -> String {
    let nanos = duration.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(u128::from(*unit)));
    let (name, unit) = whole.copied().unwrap_or(("ns", 1));
    format!("{}{name}", nanos / u128::from(unit))
}

fn nanos(mut text: &str) -> Option<u64> {
    let mut total: u64 = 0;
    while !text.is_empty() {
        let digits = text.find(|letter: char| !letter.is_ascii_digit())?;
        let (number, behind) = text.split_at(digits);
        let letters = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        total = total.checked_add(number.parse::<u64>().ok()?.checked_mul(*nanos)?)?;
        text = behind;
    }
    Some(total)
}
