//! Times as logs write them, in milliseconds since the Unix epoch.

use jiff::fmt::strtime;
use jiff::tz::TimeZone;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// The latest time that a limiter's clock shows, in the year 2116.
const LATEST_MS: i64 = 4_600_000_000_000;

/// Parses a time: RFC 3339 (`2026-01-31T23:59:59.5Z`, also with a space), the form of access logs
/// (`31/Jan/2026:23:59:59 +0100`), or a number since the Unix epoch in seconds, milliseconds,
/// microseconds or nanoseconds, by its size. Times without an offset are UTC. Fractions of a
/// millisecond are dropped.
pub(crate) fn parse_time(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    let millis = match (bytes.get(2)?, bytes.get(4)?) {
        (b'/', _) => common_time(bytes)?,
        (_, b'-') => rfc3339(bytes)?,
        _ => epoch_time(text)?,
    };
    in_range(millis)
}

/// Parses a time in a format of `strftime`. Without an offset it is UTC.
pub(crate) fn parse_time_as(format: &str, text: &str) -> Option<u64> {
    let parsed = strtime::parse(format, text).ok()?;
    let timestamp = match parsed.to_timestamp() {
        Ok(timestamp) => timestamp,
        Err(_) => parsed.to_datetime().ok()?.to_zoned(TimeZone::UTC).ok()?.timestamp(),
    };
    in_range(timestamp.as_millisecond())
}

/// Formats a time as RFC 3339 in UTC, with milliseconds if there are any.
pub fn format_time(millis: u64) -> String {
    let millis = i64::try_from(millis).unwrap_or(i64::MAX);
    match jiff::Timestamp::from_millisecond(millis) {
        Ok(timestamp) => timestamp.to_string(),
        Err(_) => format!("{millis} ms"),
    }
}

fn in_range(millis: i64) -> Option<u64> {
    if millis > LATEST_MS { None } else { u64::try_from(millis).ok() }
}

/// `31/Jan/2026:23:59:59 +0100`.
fn common_time(text: &[u8]) -> Option<i64> {
    let name = core::str::from_utf8(text.get(3..6)?).ok()?;
    let month = MONTHS.iter().position(|month| month.eq_ignore_ascii_case(name))?;
    if [text.get(6)?, text.get(11)?] != [&b'/', &b':'] {
        return None;
    }
    let day = date(number(text, 7, 11)?, i64::try_from(month).ok()? + 1, number(text, 0, 2)?)?;
    let seconds = time_of_day(text, 12)?;
    let rest = text.get(20..)?;
    let offset = match rest {
        [] => 0,
        [b' ', offset @ ..] => zone(offset)?,
        _ => return None,
    };
    Some((day * 86_400 + seconds - offset) * 1000)
}

/// `2026-01-31T23:59:59.5+01:00`, also with a space and without an offset.
fn rfc3339(text: &[u8]) -> Option<i64> {
    if *text.get(7)? != b'-' || !matches!(text.get(10)?, b'T' | b't' | b' ') {
        return None;
    }
    let day = date(number(text, 0, 4)?, number(text, 5, 7)?, number(text, 8, 10)?)?;
    let seconds = time_of_day(text, 11)?;
    let mut rest = text.get(19..)?;
    let mut millis = 0;
    if let [b'.' | b',', fraction @ ..] = rest {
        let digits = fraction.iter().take_while(|digit| digit.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        let digit = |place: usize| fraction.get(place).filter(|_| place < digits);
        for place in 0..3 {
            millis = millis * 10 + digit(place).map_or(0, |digit| i64::from(digit - b'0'));
        }
        rest = &fraction[digits..];
    }
    let offset = match rest {
        [] | [b'Z' | b'z'] => 0,
        [b' ', offset @ ..] | offset => zone(offset)?,
    };
    Some((day * 86_400 + seconds - offset) * 1000 + millis)
}

/// Reads a Unix time. The size of the number implies its unit: seconds until the year 5138, above that milliseconds,
/// microseconds or nanoseconds.
fn epoch_time(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let number: i64 = whole.parse().ok()?;
    let millis = match whole.len() {
        ..=11 => {
            let fraction =
                fraction.get(..3).map_or_else(|| format!("{fraction:0<3}"), String::from);
            number * 1000 + fraction.parse::<i64>().ok()?
        }
        12..=14 => number,
        15..=17 => number / 1000,
        _ => number / 1_000_000,
    };
    Some(millis)
}

fn number(text: &[u8], from: usize, to: usize) -> Option<i64> {
    let digits = text.get(from..to)?;
    digits.iter().try_fold(0, |number, digit| {
        digit.is_ascii_digit().then(|| number * 10 + i64::from(digit - b'0'))
    })
}

/// `23:59:59` from a place on, as seconds. A leap second counts as the second before.
fn time_of_day(text: &[u8], at: usize) -> Option<i64> {
    let (hour, minute) = (number(text, at, at + 2)?, number(text, at + 3, at + 5)?);
    let second = number(text, at + 6, at + 8)?;
    let colons = [text.get(at + 2)?, text.get(at + 5)?] == [&b':', &b':'];
    let fits = colons && hour < 24 && minute < 60 && second <= 60;
    fits.then(|| hour * 3600 + minute * 60 + second.min(59))
}

/// `Z`, `+0100` or `+01:00`, as seconds east of Greenwich.
fn zone(text: &[u8]) -> Option<i64> {
    let sign = match text.first()? {
        b'+' => 1,
        b'-' => -1,
        b'Z' | b'z' if text.len() == 1 => return Some(0),
        _ => return None,
    };
    let minute_at = match text.len() {
        5 => 3,
        6 if text[3] == b':' => 4,
        _ => return None,
    };
    let (hours, minutes) = (number(text, 1, 3)?, number(text, minute_at, minute_at + 2)?);
    (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
}

/// Days since the Unix epoch of a date of the Gregorian calendar.
fn date(year: i64, month: i64, day: i64) -> Option<i64> {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        4 | 6 | 9 | 11 => 30,
        2 if is_leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) {
        return None;
    }
    // Years begin with March, so that the leap day is the last of a year.
    let year = if month <= 2 { year - 1 } else { year };
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = (year % 400) * 365 + (year % 400) / 4 - (year % 400) / 100 + day_of_year;
    Some(year / 400 * 146_097 + day_of_era - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_one_moment_is_read_alike() {
        for text in [
            "31/Jan/2026:23:59:59 +0100",
            "31/Jan/2026:22:59:59 +0000",
            "2026-01-31T22:59:59Z",
            "2026-01-31 22:59:59",
            "2026-01-31T22:59:59.000999Z",
            "2026-01-31T23:59:59+01:00",
            "1769900399",
            "1769900399.0",
            "1769900399000",
            "1769900399000000",
            "1769900399000000000",
        ] {
            assert_eq!(parse_time(text), Some(1_769_900_399_000), "{text}");
        }
        assert_eq!(parse_time("1769900399.25"), Some(1_769_900_399_250));
        assert_eq!(parse_time("2026-01-31T22:59:59,1Z"), Some(1_769_900_399_100));
        assert_eq!(format_time(1_769_900_399_000), "2026-01-31T22:59:59Z");
    }

    #[test]
    fn impossible_times_are_refused() {
        for text in [
            "",
            "x",
            "-",
            "31/Feb/2026:00:00:00 +0000",
            "2026-02-30T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00+1",
            "12.5.6",
            "31/Jan/2026:23:59:59+0100",
            "99999999999999999999",
            "1/Jan/2026:23:59:59 +0100",
        ] {
            assert_eq!(parse_time(text), None, "{text}");
        }
    }

    #[test]
    fn dates_agree_with_the_calendar_of_jiff() {
        for day in (0..50_000).step_by(17) {
            let timestamp = jiff::Timestamp::from_second(day * 86_400).unwrap();
            assert_eq!(parse_time(&timestamp.to_string()), u64::try_from(day * 86_400_000).ok());
        }
    }

    #[test]
    fn a_format_of_the_user_is_read() {
        let format = "%Y%m%d %H:%M:%S";
        assert_eq!(parse_time_as(format, "20260131 22:59:59"), Some(1_769_900_399_000));
        assert_eq!(parse_time_as("%s", "1769900399"), Some(1_769_900_399_000));
        let zoned = "%d.%m.%Y %H:%M:%S%.f %z";
        assert_eq!(parse_time_as(zoned, "31.01.2026 23:59:59.5 +0100"), Some(1_769_900_399_500));
        assert_eq!(parse_time_as(format, "2026"), None);
    }
}
