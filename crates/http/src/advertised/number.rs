//! Numbers in fields without a grammar: counts and waits.

use std::time::{Duration, SystemTime};

use super::{AdvertisedLimits, date};
use crate::header::since_epoch;

/// A number of units. It saturates, and fractions are dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Count {
    /// Below zero, which means "unlimited" for some servers and "over the limit" for others.
    Negative,
    Units(u64),
}

impl Count {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let decimal = Decimal::parse(text)?;
        Some(if decimal.negative { Self::Negative } else { Self::Units(decimal.whole) })
    }
}

/// Parses a wait: seconds from now, a time since the epoch, or a date.
///
/// Numbers are distinguished by size: a billion seconds are 31 years from now, or September 2001
/// since the epoch. From there on, each factor of 1000 means a smaller unit, down to nanoseconds. A
/// time in the past and a negative number mean no wait. Longer waits are shortened to
/// [`AdvertisedLimits::WAIT_MAX`].
pub(super) fn wait(text: &str, now: SystemTime) -> Option<Duration> {
    let wait = match Decimal::parse(text) {
        Some(decimal) if decimal.negative => Duration::ZERO,
        Some(decimal) if decimal.whole < TIMES_FROM => decimal.seconds(),
        Some(decimal) => decimal.time().saturating_sub(since_epoch(now)),
        None => since_epoch(date::parse(text, now)?).saturating_sub(since_epoch(now)),
    };
    Some(wait.min(AdvertisedLimits::WAIT_MAX))
}

/// Numbers from this one on are times since the epoch.
const TIMES_FROM: u64 = 1_000_000_000;

/// Digits with an optional sign and fraction.
#[derive(Debug, Clone, Copy)]
struct Decimal {
    negative: bool,
    /// The whole part, saturated.
    whole: u64,
    /// The fraction in billionths, rounded up so that a wait is never too short.
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
        // There are only digits, so the only possible error is an overflow.
        let whole = whole.parse().unwrap_or(u64::MAX);
        let billionths = billionths(fraction);
        Some(Self { negative: negative && (whole, billionths) != (0, 0), whole, billionths })
    }

    fn seconds(self) -> Duration {
        Duration::from_secs(self.whole).saturating_add(Duration::from_nanos(self.billionths.into()))
    }

    /// Returns a time since the epoch, in the unit that its size suggests.
    fn time(self) -> Duration {
        const MILLIS_FROM: u64 = TIMES_FROM * 1000;
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

/// Converts the digits after the decimal point to billionths, rounded up.
fn billionths(fraction: &str) -> u32 {
    let (read, rest) = fraction.split_at(fraction.len().min(9));
    let padded = read.bytes().chain(std::iter::repeat(b'0')).take(9);
    let read = padded.fold(0, |sum: u32, digit| sum * 10 + u32::from(digit - b'0'));
    read + u32::from(rest.bytes().any(|digit| digit != b'0'))
}

#[cfg(test)]
mod tests;
