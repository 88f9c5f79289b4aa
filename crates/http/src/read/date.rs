//! Dates as HTTP has them: the one form that is written, and the two that must still be read.

use std::time::{Duration, SystemTime};

/// A moment, in seconds since the epoch; negative before it.
///
/// | form | example |
/// |---|---|
/// | IMF-fixdate | `Sun, 06 Nov 1994 08:49:37 GMT` |
/// | RFC 850 | `Sunday, 06-Nov-94 08:49:37 GMT` |
/// | asctime | `Sun Nov  6 08:49:37 1994` |
///
/// A year of two digits is taken for the one that is at most 50 years ahead of `now`, as RFC 9110
/// wants it. Whether the name of the day is the right one is not looked at.
pub(crate) fn parse(text: &str, now: SystemTime) -> Option<i64> {
    let parts: Vec<&str> = text.split_ascii_whitespace().take(PARTS_MAX + 1).collect();
    let (year, month, day, time) = match *parts.as_slice() {
        [weekday, day, month, year, time, "GMT"] => {
            is_in(weekday.strip_suffix(',')?, &SHORT_DAYS).then_some(())?;
            (four_digits(year)?, month, two_digits(day)?, time)
        }
        [weekday, date, time, "GMT"] => {
            is_in(weekday.strip_suffix(',')?, &LONG_DAYS).then_some(())?;
            let (day, rest) = date.split_once('-')?;
            let (month, year) = rest.split_once('-')?;
            (near(two_digits(year)?, now), month, two_digits(day)?, time)
        }
        [weekday, month, day, time, year] => {
            is_in(weekday, &SHORT_DAYS).then_some(())?;
            let day = if day.len() == 1 { digits(day)? } else { two_digits(day)? };
            (four_digits(year)?, month, day, time)
        }
        _ => return None,
    };
    let month = 1 + MONTHS.iter().position(|name| *name == month)?;
    let days = days_since_epoch(year, i64::try_from(month).ok()?, day)?;
    Some(days * 86_400 + time_of_day(time)?)
}

/// The moment of a date, if the machine's clock can tell it.
pub(crate) fn moment(seconds: i64) -> Option<SystemTime> {
    let distance = Duration::from_secs(seconds.unsigned_abs());
    if seconds < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(distance)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(distance)
    }
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` has the most.
const PARTS_MAX: usize = 6;

const SHORT_DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
const LONG_DAYS: [&str; 7] =
    ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

fn is_in(name: &str, names: &[&str]) -> bool {
    names.contains(&name)
}

/// `08:49:37`, in seconds. A leap second counts as one more.
fn time_of_day(text: &str) -> Option<i64> {
    let (hour, rest) = text.split_once(':')?;
    let (minute, second) = rest.split_once(':')?;
    let (hour, minute, second) = (two_digits(hour)?, two_digits(minute)?, two_digits(second)?);
    (hour < 24 && minute < 60 && second <= 60).then_some(hour * 3600 + minute * 60 + second)
}

fn two_digits(text: &str) -> Option<i64> {
    (text.len() == 2).then(|| digits(text)).flatten()
}

fn four_digits(text: &str) -> Option<i64> {
    (text.len() == 4).then(|| digits(text)).flatten()
}

/// Digits only: `parse` alone would take a sign.
fn digits(text: &str) -> Option<i64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The year with these last two digits that is at most 50 years ahead of now.
fn near(last_two: i64, now: SystemTime) -> i64 {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    // A year of 365.2425 days; off by a day at most, which cannot matter 50 years away.
    let this_year = 1970 + i64::try_from(now / 31_556_952).unwrap_or(0).min(8029);
    let latest = this_year + 50;
    latest - (latest - last_two).rem_euclid(100)
}

/// Days from 1 January 1970 in the Gregorian calendar; `None` for a day that the month has not.
fn days_since_epoch(year: i64, month: i64, day: i64) -> Option<i64> {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let length = match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    (1..=length).contains(&day).then_some(())?;
    // Counted in years that begin in March, so that the leap day is a year's last.
    let year = if month <= 2 { year - 1 } else { year };
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(year * 365 + leap_days + day_of_year - DAYS_TO_EPOCH)
}

/// From 1 March of the year 0 to 1 January 1970.
const DAYS_TO_EPOCH: i64 = 719_468;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// In November 2026.
    fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000)
    }

    fn at(text: &str) -> Option<i64> {
        parse(text, now())
    }

    #[test]
    fn the_three_forms_of_one_moment() {
        for text in [
            "Sun, 06 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
            "Sun Nov  6 08:49:37 1994",
            "Sun Nov 6 08:49:37 1994",
        ] {
            assert_eq!(at(text), Some(784_111_777), "{text}");
        }
    }

    #[test]
    fn two_digits_mean_the_year_that_is_at_most_fifty_ahead() {
        let year_of = |text: &str| {
            let date = at(&format!("Sunday, 06-Nov-{text} 08:49:37 GMT")).unwrap();
            1970 + date / 31_556_952
        };
        assert_eq!(year_of("26"), 2026);
        assert_eq!(year_of("76"), 2076);
        assert_eq!(year_of("77"), 1977);
        assert_eq!(year_of("00"), 2000);
        assert_eq!(near(99, SystemTime::UNIX_EPOCH), 1999);
        assert_eq!(near(21, SystemTime::UNIX_EPOCH), 1921);
    }

    #[test]
    fn what_is_no_date_is_none() {
        for text in [
            "",
            "soon",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 UTC",
            "Son, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 1900 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:49:61 GMT",
            "Sun, 06 Nov +994 08:49:37 GMT",
            "Sun, +6 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 19940 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sun, 06 Nov 1994 08:49:37 GMT GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "1994-11-06T08:49:37Z",
        ] {
            assert_eq!(at(text), None, "{text}");
        }
        assert!(at("Sat, 29 Feb 2020 23:59:60 GMT").is_some());
        assert!(at("Mon, 01 Jan 0000 00:00:00 GMT").is_some_and(|seconds| seconds < 0));
    }

    proptest! {
        // From 1970 to 9999, beside a parser and writer that is not ours.
        #[test]
        fn agrees_with_httpdate(seconds in 0_i64..253_402_300_800) {
            let moment = moment(seconds).unwrap();
            let text = httpdate::fmt_http_date(moment);
            prop_assert_eq!(at(&text), Some(seconds));
            prop_assert_eq!(httpdate::parse_http_date(&text).ok(), Some(moment));
        }

        #[test]
        fn no_text_panics(text: String, numbers in "[A-Z][a-z]{2},? [0-9]{1,2} [JN][ao][nv] [0-9]{1,5} [0-9:]{1,9}( GMT)?") {
            let _ = at(&text);
            let _ = at(&numbers);
        }
    }
}
