//! Numbers as they come in fields that no grammar rules: counts and waits.

use std::time::{Duration, SystemTime};

use super::date;

/// The longest wait that is ever told, ten years: what is longer is cut to it.
///
/// No window is longer, and a moment that far ahead still fits every clock.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(10 * 366 * 24 * 3600);

/// A number of units, saturated; a part of a unit is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Count {
    /// Below zero: "unlimited" to some, "more than used up" to others.
    Negative,
    Units(u64),
}

impl Count {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let decimal = Decimal::parse(text)?;
        Some(if decimal.negative { Self::Negative } else { Self::Units(decimal.whole) })
    }

    /// The units; none below zero.
    pub(crate) fn units(self) -> Option<u64> {
        match self {
            Self::Negative => None,
            Self::Units(units) => Some(units),
        }
    }
}

/// How long to wait by a text that may be seconds from now, a moment since the epoch, or a date.
///
/// Told apart by size: a billion seconds are 31 years from now, or September 2001 since the
/// epoch. Of moments, a thousand times as many are milliseconds, and so on to nanoseconds. What
/// is past or negative is no wait; what is too long is cut to [`WAIT_MAX`].
pub(crate) fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let wait = match Decimal::parse(text) {
        Some(decimal) if decimal.negative => Duration::ZERO,
        Some(decimal) if decimal.whole < MOMENTS_FROM => decimal.seconds(),
        Some(decimal) => decimal.moment().saturating_sub(since_epoch(now)),
        None => until(date::parse(text.trim(), now)?, now),
    };
    Some(wait.min(WAIT_MAX))
}

/// Seconds from now up to here, a moment since the epoch from here on.
const MOMENTS_FROM: u64 = 1_000_000_000;

fn until(seconds: i64, now: SystemTime) -> Duration {
    let moment = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    moment.saturating_sub(since_epoch(now))
}

fn since_epoch(now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// Digits with an optional sign and fraction, nothing else.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    negative: bool,
    /// Saturated.
    whole: u64,
    /// The fraction in billionths, rounded up: a wait is never told shorter than it is.
    billionths: u32,
}

impl Decimal {
    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
        let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || fraction.is_empty() || !is_digits(whole) || !is_digits(fraction) {
            return None;
        }
        let whole = whole.bytes().fold(0, |sum: u64, digit| {
            sum.saturating_mul(10).saturating_add(u64::from(digit - b'0'))
        });
        let billionths = billionths(fraction);
        Some(Self { negative: negative && (whole, billionths) != (0, 0), whole, billionths })
    }

    fn seconds(self) -> Duration {
        Duration::from_secs(self.whole).saturating_add(Duration::from_nanos(self.billionths.into()))
    }

    /// As a moment since the epoch, in the unit that its size suggests.
    fn moment(self) -> Duration {
        const MILLIS_FROM: u64 = MOMENTS_FROM * 1000;
        const MICROS_FROM: u64 = MILLIS_FROM * 1000;
        const NANOS_FROM: u64 = MICROS_FROM * 1000;
        match self.whole {
            NANOS_FROM.. => Duration::from_nanos(self.whole),
            MICROS_FROM..NANOS_FROM => Duration::from_micros(self.whole),
            MILLIS_FROM..MICROS_FROM => Duration::from_millis(self.whole),
            _ => self.seconds(),
        }
    }
}

/// The digits after the point, in billionths, rounded up.
fn billionths(fraction: &str) -> u32 {
    let (read, rest) = fraction.split_at(fraction.len().min(9));
    let padded = read.bytes().chain(std::iter::repeat(b'0')).take(9);
    let read = padded.fold(0, |sum: u32, digit| sum * 10 + u32::from(digit - b'0'));
    read + u32::from(rest.bytes().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_795_000_000;

    fn waits(text: &str) -> Option<Duration> {
        wait(text, SystemTime::UNIX_EPOCH + Duration::from_secs(NOW))
    }

    fn seconds(text: &str) -> Option<u64> {
        waits(text).map(|wait| wait.as_secs())
    }

    #[test]
    fn small_numbers_are_seconds_and_large_ones_moments() {
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
    fn the_past_is_no_wait_and_the_far_future_is_cut() {
        assert_eq!(waits("-5"), Some(Duration::ZERO));
        assert_eq!(waits("1700000000"), Some(Duration::ZERO));
        assert_eq!(waits("Sun, 06 Nov 1994 08:49:37 GMT"), Some(Duration::ZERO));
        assert_eq!(waits("Mon, 01 Jan 0001 00:00:00 GMT"), Some(Duration::ZERO));
        assert_eq!(waits("999999999"), Some(WAIT_MAX));
        assert_eq!(waits("Fri, 31 Dec 9999 23:59:59 GMT"), Some(WAIT_MAX));
        assert_eq!(waits(&"9".repeat(400)), Some(WAIT_MAX));
    }

    #[test]
    fn a_clock_before_the_epoch_reads_as_the_epoch() {
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(wait("1000000000", before), Some(WAIT_MAX));
    }

    #[test]
    fn what_is_no_number_is_none() {
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
}
