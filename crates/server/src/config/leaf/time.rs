//! Stretches of time: `500ms`, `10s`, `1h30m`.

use core::time::Duration;

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

/// A stretch of time.
pub(in crate::config) fn time(text: &str) -> Result<Duration, String> {
    let wrong = || "use a number with its unit, such as 500ms, 10s, 5m, 1h30m or 7d".to_owned();
    let mut rest = text;
    let mut total: u64 = 0;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|letter: char| !letter.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, behind) = rest.split_at(digits);
        let letters = behind.find(|letter: char| letter.is_ascii_digit()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(letters);
        let nanos = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, nanos)| *nanos);
        let part = nanos.and_then(|nanos| number.parse::<u64>().ok()?.checked_mul(nanos));
        total = part.and_then(|part| total.checked_add(part)).ok_or_else(wrong)?;
        rest = behind;
    }
    Ok(Duration::from_nanos(total))
}

/// The shortest way to write a stretch of time down, as configurations do.
pub fn show(time: Duration) -> String {
    let nanos = time.as_nanos();
    if nanos == 0 {
        return "0s".to_owned();
    }
    let whole = UNITS.iter().find(|(_, unit)| nanos.is_multiple_of(u128::from(*unit)));
    let (name, unit) = whole.copied().unwrap_or(("ns", 1));
    format!("{}{name}", nanos / u128::from(unit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written() {
        for (text, millis, shown) in [
            ("500ms", 500, "500ms"),
            ("10s", 10_000, "10s"),
            ("60s", 60_000, "1m"),
            ("1h30m", 5_400_000, "90m"),
            ("7d", 604_800_000, "1w"),
            ("0s", 0, "0s"),
            ("1s1ms", 1001, "1001ms"),
        ] {
            let read = time(text).unwrap();
            assert_eq!(read, Duration::from_millis(millis), "{text}");
            assert_eq!(show(read), shown);
        }
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in
            ["", "10", "s", "10 s", "-1s", "1.5s", "10sec", "1S", "99999999999w", "1s 1ms", "10s5"]
        {
            assert!(time(text).is_err(), "{text}");
        }
    }
}
