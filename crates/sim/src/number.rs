//! Conversions for means and charts, where the last bits do not matter.

/// Returns the nearest floating-point number.
#[expect(clippy::cast_precision_loss, reason = "means and charts need no more than 53 bits")]
pub fn to_float(whole: u64) -> f64 {
    whole as f64
}

/// Returns the number without its fraction: 0 for negative numbers, `u64::MAX` for huge ones.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the conversion saturates, which is what is wanted"
)]
pub fn to_whole(number: f64) -> u64 {
    number as u64
}

/// Returns `part / whole`, or 0 if `whole` is 0.
pub fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { to_float(part) / to_float(whole) }
}
