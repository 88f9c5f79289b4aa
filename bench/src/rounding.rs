//! Between whole numbers and floats, with the loss named.

/// A count as a float; above 2^53 the last digits are lost, which no table shows.
#[inline]
#[expect(clippy::cast_precision_loss, reason = "printed with a few digits")]
pub(crate) fn to_float(count: u64) -> f64 {
    count as f64
}

/// The nearest whole number, zero for anything negative.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "`as` saturates, and draws are small")]
#[expect(clippy::cast_sign_loss, reason = "`as` turns anything negative into zero, as documented")]
pub(crate) fn to_whole(value: f64) -> u64 {
    value.round() as u64
}
