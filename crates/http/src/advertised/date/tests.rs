//! Tests of `date`.

use super::*;
use proptest::prelude::*;

/// A time in November 2026.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_000_000)
}

/// Returns the seconds since the epoch, or zero before it.
fn at(text: &str) -> Option<u64> {
    parse(text, now()).map(|date| since_epoch(date).as_secs())
}

#[test]
fn reads_all_three_forms() {
    for text in [
        "Sun, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-94 08:49:37 GMT",
        "Sun Nov  6 08:49:37 1994",
        "Sun Nov 6 08:49:37 1994",
        "Mon, 06 Nov 1994 08:49:37 GMT",
    ] {
        assert_eq!(at(text), Some(784_111_777), "{text}");
    }
}

#[test]
fn two_digit_years_are_at_most_fifty_years_ahead() {
    let year_of = |text: &str| {
        let date = at(&format!("Sunday, 06-Nov-{text} 08:49:37 GMT")).unwrap();
        1970 + date / 31_556_952
    };
    assert_eq!(year_of("26"), 2026);
    assert_eq!(year_of("76"), 2076);
    assert_eq!(year_of("77"), 1977);
    assert_eq!(year_of("00"), 2000);
    assert_eq!(full_year(99, SystemTime::UNIX_EPOCH), 1999);
    assert_eq!(full_year(21, SystemTime::UNIX_EPOCH), 1921);
}

#[test]
fn leap_seconds_and_years_before_1970_are_allowed() {
    assert_eq!(at("Sat, 29 Feb 2020 23:59:60 GMT"), Some(1_583_020_800));
    for (text, days) in [
        ("Mon, 01 Jan 0000 00:00:00 GMT", 719_528),
        ("Mon, 01 Jan 0001 00:00:00 GMT", 719_162),
        ("Wed, 31 Dec 1969 00:00:00 GMT", 1),
    ] {
        let distance = Duration::from_secs(days * 86_400);
        assert_eq!(parse(text, now()), SystemTime::UNIX_EPOCH.checked_sub(distance), "{text}");
    }
}

#[test]
fn anything_else_is_rejected() {
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
}

proptest! {
    #[test]
    fn no_text_panics(text: String, numbers in "[A-Z][a-z]{2},? [0-9]{1,2} [JN][ao][nv] [0-9]{1,5} [0-9:]{1,9}( GMT)?") {
        let _ = at(&text);
        let _ = at(&numbers);
    }

    #[test]
    fn every_date_from_1970_to_9999_is_read_back(seconds in 0_u64..253_402_300_800) {
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        prop_assert_eq!(at(&httpdate::fmt_http_date(date)), Some(seconds));
    }
}
