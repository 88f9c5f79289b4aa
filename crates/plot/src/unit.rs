//! What numbers mean, and how they are written.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// What the numbers of an axis mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// A number: `1.5k`, `2M`.
    #[default]
    Count,
    /// A share from 0 to 1, in percent.
    Share,
    /// A duration in seconds: `20 ms`, `1.5 s`, `2 min`.
    Seconds,
    /// Bytes, in powers of 1024.
    Bytes,
    /// A time in milliseconds since the Unix epoch, in UTC: `12:30:05`.
    Time,
    /// A percentile from 0 to 100: `p99.9`.
    Percentile,
}

const SECOND: f64 = 1000.0;
const MINUTE: f64 = 60.0 * SECOND;
const HOUR: f64 = 60.0 * MINUTE;
const DAY: f64 = 24.0 * HOUR;

/// Distances between times on an axis.
const TIME_STEPS: [f64; 32] = [
    1.0,
    2.0,
    5.0,
    10.0,
    20.0,
    50.0,
    100.0,
    200.0,
    500.0,
    SECOND,
    2.0 * SECOND,
    5.0 * SECOND,
    10.0 * SECOND,
    15.0 * SECOND,
    30.0 * SECOND,
    MINUTE,
    2.0 * MINUTE,
    5.0 * MINUTE,
    10.0 * MINUTE,
    15.0 * MINUTE,
    30.0 * MINUTE,
    HOUR,
    2.0 * HOUR,
    3.0 * HOUR,
    6.0 * HOUR,
    12.0 * HOUR,
    DAY,
    2.0 * DAY,
    7.0 * DAY,
    14.0 * DAY,
    30.0 * DAY,
    90.0 * DAY,
];

impl Unit {
    /// Returns a distance between values on an axis that is easy to read, at least `least`.
    pub(crate) fn step(self, least: f64) -> f64 {
        match self {
            Self::Time => {
                let fitting = TIME_STEPS.into_iter().find(|step| *step >= least);
                fitting.unwrap_or_else(|| decimal_step(least / (365.0 * DAY)) * 365.0 * DAY)
            }
            Self::Seconds if least > 0.5 => Unit::Time.step(least * SECOND) / SECOND,
            Self::Bytes if least > 0.5 => {
                let base = 1024_f64.powf(least.log(1024.0).floor().max(0.0));
                let step = decimal_step(least / base);
                if step > 512.0 { base * 1024.0 } else { step * base }
            }
            Self::Count | Self::Share | Self::Seconds | Self::Bytes | Self::Percentile => {
                decimal_step(least)
            }
        }
    }

    /// Returns the value as text. `step` is the distance to the next value, which decides how exact the text has to be; 0 is as
    /// exact as is useful.
    pub fn format(self, value: f64, step: f64) -> String {
        if !value.is_finite() {
            return "-".to_owned();
        }
        match self {
            Self::Count => count(value, step),
            Self::Share => format!("{} %", decimal(value * 100.0, step * 100.0)),
            Self::Seconds => seconds(value, step),
            Self::Bytes => scaled(value, step, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"]),
            Self::Time => time(value, step),
            Self::Percentile => format!("p{value}"),
        }
    }
}

/// The next of 1, 2 or 5 times a power of ten.
fn decimal_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let step = [1.0, 2.0, 5.0].into_iter().find(|step| step * power >= least * 0.999_999);
    step.unwrap_or(10.0) * power
}

/// A number with the digits that distinguish it from its neighbors.
fn decimal(value: f64, step: f64) -> String {
    let step = step.abs();
    let digits: usize = match step {
        _ if step <= 0.0 && value.abs() >= 100.0 => 0,
        _ if step <= 0.0 && value.abs() >= 0.1 => 2,
        _ if step <= 0.0 => 4,
        1.0.. => 0,
        0.1.. => 1,
        0.01.. => 2,
        0.001.. => 3,
        _ => 5,
    };
    let text = format!("{value:.digits$}");
    if !text.contains('.') {
        return text;
    }
    let short = text.trim_end_matches('0').trim_end_matches('.');
    if short.is_empty() || short == "-0" { "0".to_owned() } else { short.to_owned() }
}

fn count(value: f64, step: f64) -> String {
    if step <= 0.0 && value.abs() < 1e7 && value.fract() == 0.0 {
        return grouped(value);
    }
    if value.abs() < 10_000.0 {
        decimal(value, step)
    } else {
        scaled(value, step, 1000.0, &["", "k", "M", "G", "T"])
    }
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = if value < 0.0 { "-".to_owned() } else { String::new() };
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn scaled(value: f64, step: f64, base: f64, names: &[&str]) -> String {
    let (mut value, mut step, mut place) = (value, step, 0);
    while value.abs() >= base && place + 1 < names.len() {
        (value, step, place) = (value / base, step / base, place + 1);
    }
    if step <= 0.0 && place > 0 {
        return format!("{value:.1}{}", names[place]);
    }
    format!("{}{}", decimal(value, step), names[place])
}

fn seconds(value: f64, step: f64) -> String {
    let (factor, name) = match value.abs() {
        0.0 => return "0 s".to_owned(),
        ..1e-6 => (1e9, "ns"),
        ..1e-3 => (1e6, "\u{b5}s"),
        ..1.0 => (1e3, "ms"),
        ..120.0 => (1.0, "s"),
        ..7200.0 => (1.0 / 60.0, "min"),
        ..172_800.0 => (1.0 / 3600.0, "h"),
        _ => (1.0 / 86_400.0, "d"),
    };
    format!("{} {name}", decimal(value * factor, step * factor))
}

fn time(value: f64, step: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the conversion saturates, and jiff checks the range"
    )]
    let millis = value.round() as i64;
    let Ok(stamp) = Timestamp::from_millisecond(millis) else { return "-".to_owned() };
    let zoned = stamp.to_zoned(TimeZone::UTC);
    let format = match step {
        _ if step >= 300.0 * DAY => "%Y-%m",
        _ if step >= DAY || (step >= HOUR && value.rem_euclid(DAY) < 0.5) => "%b %-d",
        _ if step >= MINUTE => "%H:%M",
        _ if step > 0.0 && step < SECOND => "%H:%M:%S%.3f",
        _ => "%H:%M:%S",
    };
    zoned.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_in_their_unit() {
        let noon = 1_700_049_605_250.0;
        for (unit, value, step, text) in [
            (Unit::Count, 1500.0, 500.0, "1500"),
            (Unit::Count, 20_000.0, 5000.0, "20k"),
            (Unit::Count, 2_500_000.0, 500_000.0, "2.5M"),
            (Unit::Count, 0.0, 0.2, "0"),
            (Unit::Count, 137_714.0, 0.0, "137,714"),
            (Unit::Count, 0.25, 0.05, "0.25"),
            (Unit::Count, f64::NAN, 1.0, "-"),
            (Unit::Share, 0.001, 0.001, "0.1 %"),
            (Unit::Share, 0.5, 0.1, "50 %"),
            (Unit::Seconds, 0.0002, 0.0001, "200 \u{b5}s"),
            (Unit::Seconds, 1.5, 0.5, "1.5 s"),
            (Unit::Seconds, 300.0, 60.0, "5 min"),
            (Unit::Bytes, 1536.0, 512.0, "1.5 KiB"),
            (Unit::Percentile, 99.999, 0.0, "p99.999"),
            (Unit::Time, noon, SECOND, "12:00:05"),
            (Unit::Time, noon, 5.0 * MINUTE, "12:00"),
            (Unit::Time, noon, 10.0, "12:00:05.250"),
            (Unit::Time, 1_700_006_400_000.0, HOUR, "Nov 15"),
            (Unit::Time, f64::MAX, HOUR, "-"),
        ] {
            assert_eq!(unit.format(value, step), text, "{unit:?} {value}");
        }
    }

    #[test]
    fn steps_are_easy_to_read() {
        for (unit, least, step) in [
            (Unit::Count, 3.0, 5.0),
            (Unit::Count, 0.011, 0.02),
            (Unit::Time, 61_000.0, 2.0 * MINUTE),
            (Unit::Seconds, 40.0, 60.0),
            (Unit::Bytes, 1500.0, 2048.0),
        ] {
            assert!(
                (unit.step(least) - step).abs() < 1e-9,
                "{unit:?} {least}: {}",
                unit.step(least)
            );
        }
    }
}
