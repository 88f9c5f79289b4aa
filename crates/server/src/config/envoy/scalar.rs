//! Scalars as envoyproxy/ratelimit reads them, in YAML 1.1.

use crate::config::check::shown;
use crate::config::report::Report;
use crate::config::yaml::{Node, Scalar, Style, Value};
use crate::domain::TEXT_MAX;

/// Returns the YAML 1.1 value of a scalar.
pub(super) fn value(scalar: &Scalar) -> Value {
    if scalar.style != Style::Plain {
        return Value::Text;
    }
    match scalar.text.as_str() {
        "y" | "Y" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => Value::Flag(true),
        "n" | "N" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => Value::Flag(false),
        text => match whole(text) {
            Some(number) => Value::Whole(number),
            // `0o17` and similar are texts in 1.1, and whole numbers in 1.2.
            None => match scalar.value() {
                Value::Whole(_) => Value::Text,
                other => other,
            },
        },
    }
}

/// Parses a whole number: with underscores, `0x1f`, `0b101`, or octal with a leading zero.
fn whole(text: &str) -> Option<i128> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit()) {
        return None;
    }
    let digits = digits.replace('_', "");
    let number = if let Some(digits) = digits.strip_prefix("0x") {
        i128::from_str_radix(digits, 16)
    } else if let Some(digits) = digits.strip_prefix("0b") {
        i128::from_str_radix(digits, 2)
    } else if let Some(digits) = digits.strip_prefix('0').filter(|digits| !digits.is_empty()) {
        i128::from_str_radix(digits, 8)
    } else {
        digits.parse()
    };
    number.ok().map(|number| if text.starts_with('-') { -number } else { number })
}

/// Returns the text of a key. Numbers and flags are used as they are written.
pub(super) fn text(node: &Node, key: &str, report: &mut Report) -> Option<String> {
    let found = node.get(key)?;
    let Some(scalar) = found.as_scalar() else {
        wrong_type(found, key, "a text", report);
        return None;
    };
    if let Value::Decimal(_) = value(scalar) {
        let message =
            format!("`{key}` must be a text, but `{}` is a decimal number", shown(&scalar.text));
        report.error(found.span, "type", message).help("put it in quotes");
        return None;
    }
    if scalar.text.len() > TEXT_MAX {
        let message = format!("`{key}` has {} bytes", scalar.text.len());
        report
            .error(found.span, "range", message)
            .help(format!("use at most {TEXT_MAX}, or end it with `*`"));
        return None;
    }
    Some(scalar.text.clone()).filter(|text| !text.is_empty())
}

/// Returns the flag of a key, or false if it is absent.
pub(super) fn flag(node: &Node, key: &str, report: &mut Report) -> bool {
    let Some(found) = node.get(key) else { return false };
    match found.as_scalar().map(value) {
        Some(Value::Flag(flag)) => flag,
        _ => {
            wrong_type(found, key, "true or false", report);
            false
        }
    }
}

/// Returns a number of requests, or zero if it is absent.
pub(super) fn requests(node: &Node, key: &str, report: &mut Report) -> u32 {
    let Some(found) = node.get(key) else { return 0 };
    match found.as_scalar().map(value) {
        Some(Value::Whole(number)) => u32::try_from(number).unwrap_or_else(|_| {
            let message = format!("`{key}` {number} is out of range");
            report.error(found.span, "range", message).help(format!("use 0 to {}", u32::MAX));
            0
        }),
        _ => {
            wrong_type(found, key, "a whole number without quotes", report);
            0
        }
    }
}

pub(super) fn wrong_type(node: &Node, key: &str, must: &str, report: &mut Report) {
    let message = match node.as_scalar() {
        Some(scalar) => format!("invalid value `{}` for `{key}`", shown(&scalar.text)),
        None => format!("`{key}` is {}", node.what()),
    };
    report.error(node.span, "type", message).help(format!("use {must}"));
}
