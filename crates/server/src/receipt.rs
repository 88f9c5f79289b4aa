//! Receipts that travel: `units.tick.epoch` in decimal digits.
//!
//! Whoever may ask may also give back, so a receipt needs no seal: it only has to name units that
//! are there.

use slidegate::Receipt;

/// The parts of a receipt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptParts {
    /// How many units.
    pub units: u64,
    /// When they were taken.
    pub tick: u64,
    /// Of which life of the key.
    pub epoch: u16,
}

impl ReceiptParts {
    /// Reads what [`fmt`](core::fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next =
            || parts.next().filter(|part| part.bytes().all(|byte| byte.is_ascii_digit()));
        let (units, tick, epoch) = (next()?, next()?, next()?);
        if parts.next().is_some() {
            return None;
        }
        let read = Self {
            units: units.parse().ok()?,
            tick: tick.parse().ok()?,
            epoch: epoch.parse().ok()?,
        };
        (read.units > 0 && read.tick <= TICK_MAX).then_some(read)
    }
}

/// No clock comes this far.
const TICK_MAX: u64 = (1 << 53) - 1;

impl From<&Receipt> for ReceiptParts {
    fn from(receipt: &Receipt) -> Self {
        Self { units: receipt.units(), tick: receipt.tick(), epoch: receipt.epoch() }
    }
}

impl core::fmt::Display for ReceiptParts {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(formatter, "{}.{}.{}", self.units, self.tick, self.epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_comes_back_as_it_went() {
        let parts = ReceiptParts { units: 7, tick: 1_794_767_525_534, epoch: 65_535 };
        assert_eq!(ReceiptParts::parse(&parts.to_string()), Some(parts));
    }

    #[test]
    fn what_is_no_receipt_is_none() {
        for text in ["", "1", "1.2", "1.2.3.4", "0.2.3", "+1.2.3", "1.2.65536", "1.-2.3", "a.b.c"] {
            assert_eq!(ReceiptParts::parse(text), None, "{text}");
        }
        assert_eq!(ReceiptParts::parse("1.99999999999999999.3"), None);
    }
}
