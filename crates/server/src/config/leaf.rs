//! Parses scalar values. An error describes the allowed values.

use super::yaml::{Scalar, Style, Value};

/// The maximum length of a text in bytes.
pub(super) const TEXT_MAX: usize = 4096;

pub(super) fn flag(scalar: &Scalar) -> Option<bool> {
    match scalar.value() {
        Value::Flag(flag) => Some(flag),
        // Environment variables often use these keywords.
        _ if scalar.style == Style::Given => match scalar.text.to_ascii_lowercase().as_str() {
            "1" | "yes" | "on" | "true" => Some(true),
            "0" | "no" | "off" | "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}

/// Parses a whole number, which may be grouped as in `10_000`.
pub(super) fn whole(scalar: &Scalar) -> Option<i128> {
    match scalar.value() {
        Value::Whole(number) => Some(number),
        Value::Text if scalar.style != Style::Quoted => {
            let text = &scalar.text;
            let grouped = text.starts_with(|first: char| first.is_ascii_digit())
                && !text.ends_with('_')
                && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'_');
            grouped.then(|| text.replace('_', "").parse().ok()).flatten()
        }
        _ => None,
    }
}

pub(super) fn decimal(scalar: &Scalar) -> Option<f64> {
    match scalar.value() {
        Value::Decimal(number) => Some(number),
        // Where a decimal is expected, a whole number is small or out of range.
        Value::Whole(number) => i32::try_from(number).ok().map(f64::from),
        _ => None,
    }
}

/// Returns the items of a comma-separated list.
pub(super) fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}
