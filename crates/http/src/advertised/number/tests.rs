//! Tests of `number`.

use super::*;

const NOW: u64 = 1_795_000_000;
const WAIT_MAX: Duration = AdvertisedLimits::WAIT_MAX;

fn waits(text: &str) -> Option<Duration> {
    wait(text, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
}

fn seconds(text: &str) -> Option<u64> {
    waits(text).map(|wait| wait.as_secs())
}

#[test]
fn small_numbers_are_seconds_and_large_ones_times() {
    assert_eq!(seconds("0"), Some(0));
    assert_eq!(seconds(" 7 "), Some(7));
    assert_eq!(seconds("86400"), Some(86_400));
    assert_eq!(seconds("1795000030"), Some(30));
    assert_eq!(seconds("1795000030000"), Some(30));
    assert_eq!(seconds("1795000030000000"), Some(30));
    assert_eq!(seconds("1795000030000000000"), Some(30));
    assert_eq!(waits("12.25"), Some(Duration::from_millis(12_250)));
    assert_eq!(waits("1795000000.5"), Some(Duration::from_millis(500)));
    assert_eq!(waits("0.0000000001"), Some(Duration::from_nanos(1)));
    assert_eq!(waits("0.9999999999"), Some(Duration::from_secs(1)));
}

#[test]
fn past_is_no_wait_and_far_future_is_capped() {
    assert_eq!(waits("-5"), Some(Duration::ZERO));
    assert_eq!(waits("1700000000"), Some(Duration::ZERO));
    assert_eq!(waits("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
    assert_eq!(waits("Mon, 01 Jan 0001 00:00:00 GMT"), Some(Duration::ZERO));
    assert_eq!(waits("999999999"), Some(WAIT_MAX));
    assert_eq!(waits("Fri, 31 Dec 9999 23:59:59 GMT"), Some(WAIT_MAX));
    assert_eq!(waits(&"9".repeat(400)), Some(WAIT_MAX));
}

#[test]
fn clock_before_the_epoch_reads_as_the_epoch() {
    let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
    assert_eq!(wait("1000000000", before), Some(WAIT_MAX));
}

#[test]
fn anything_else_is_rejected() {
    for text in ["", " ", "-", ".", "1.", ".5", "1e3", "0x10", "1 2", "ten", "1,5", "\u{663}"] {
        assert_eq!(waits(text), None, "{text:?}");
        assert_eq!(Count::parse(text), None, "{text:?}");
    }
}

#[test]
fn counts_saturate() {
    assert_eq!(Count::parse("100"), Some(Count::Units(100)));
    assert_eq!(Count::parse("99.9"), Some(Count::Units(99)));
    assert_eq!(Count::parse(&"9".repeat(99)), Some(Count::Units(u64::MAX)));
    assert_eq!(Count::parse("-1"), Some(Count::Negative));
}
