//! HTTP dates, parsed with `httpdate`.

use std::time::{Duration, SystemTime};

use crate::header::since_epoch;

/// Parses a date in any of the three forms of RFC 9110.
///
/// | form | example |
/// |---|---|
/// | IMF-fixdate | `Sun, 06 Nov 1994 08:49:37 GMT` |
/// | RFC 850 | `Sunday, 06-Nov-94 08:49:37 GMT` |
/// | asctime | `Sun Nov  6 08:49:37 1994` |
///
/// `httpdate` is stricter than a client can be and does not know `now`. The parts are therefore
/// rearranged as an IMF-fixdate first: the weekday may be wrong, a leap second and a year before
/// 1970 are allowed, and a year of two digits is at most 50 years after `now`, as RFC 9110
/// requires.
pub(super) fn parse(text: &str, now: SystemTime) -> Option<SystemTime> {
    let parts: Vec<&str> = text.split_ascii_whitespace().take(PARTS_MAX + 1).collect();
    let (weekday, day, month, year, time) = match *parts.as_slice() {
        [weekday, date, time, "GMT"] => {
            let (day, rest) = date.split_once('-')?;
            let (month, year) = rest.split_once('-')?;
            (weekday, day, month, full_year(digits(year, 2)?, now), time)
        }
        [weekday, day, month, year, time, "GMT"] | [weekday, month, day, time, year] => {
            (weekday, day, month, digits(year, 4)?, time)
        }
        _ => return None,
    };
    let weekday = weekday.get(..3).filter(|weekday| WEEKDAYS.contains(weekday))?;
    // `httpdate` does not support leap seconds.
    let (time, leap_second) = match time.strip_suffix(":60") {
        Some(minute) => (format!("{minute}:59"), Duration::from_secs(1)),
        None => (time.to_owned(), Duration::ZERO),
    };
    // `httpdate` starts at 1970, and the calendar repeats every 400 years.
    let cycles = if year < 1970 { 5 } else { 0 };
    let year = year + 400 * cycles;
    // `httpdate` requires the right weekday, which usually is the given one.
    let date = [weekday].into_iter().chain(WEEKDAYS).find_map(|weekday| {
        let date = format!("{weekday}, {day:0>2} {month} {year:04} {time} GMT");
        httpdate::parse_http_date(&date).ok()
    })?;
    date.checked_add(leap_second)?.checked_sub(CYCLE * cycles)
}

/// The maximum, reached by `Sun, 06 Nov 1994 08:49:37 GMT`.
const PARTS_MAX: usize = 6;

const WEEKDAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// The duration of 400 years.
const CYCLE: Duration = Duration::from_secs(146_097 * 86_400);

/// Parses exactly `count` digits.
fn digits(text: &str, count: usize) -> Option<u32> {
    let is_number = text.len() == count && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

/// Returns the year with these last two digits that is at most 50 years after `now`.
fn full_year(last_two: u32, now: SystemTime) -> u32 {
    // A year has 365.2425 days on average. A day more or less does not matter here.
    let years = since_epoch(now).as_secs() / 31_556_952;
    let latest = 1970 + u32::try_from(years).unwrap_or(0).min(8029) + 50;
    latest - (latest - last_two) % 100
}

#[cfg(test)]
mod tests;
