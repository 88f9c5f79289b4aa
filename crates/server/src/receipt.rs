//! Receipts as short text: units, epoch and tick.
//!
//! Each number is a little-endian base 128 varint, and the bytes are base64 for URLs without padding.
//! The text is not a proof: any client of this service may also refund.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use slidegate::{Cost, Receipt};
use slidegate_gate::Gate;

/// The parts of a receipt that are sent. The client sends the key and the policy along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortableReceipt {
    units: u64,
    epoch: u16,
    tick: u64,
}

/// Ten bytes for each 64-bit number and three for the 16-bit one, rounded up to groups of three.
const BYTES_MAX: usize = 24;

/// The longest text.
pub(crate) const TEXT_MAX: usize = BYTES_MAX / 3 * 4;

impl PortableReceipt {
    pub(crate) fn new(receipt: &Receipt) -> Self {
        Self { units: receipt.units(), epoch: receipt.epoch(), tick: receipt.tick() }
    }

    /// The receipt for a key of a gate.
    pub(crate) fn for_gate(self, gate: &Gate, key: &[u8]) -> Receipt {
        gate.receipt(key, self.units, self.tick, self.epoch)
    }

    /// Writes the text into a buffer.
    pub(crate) fn encode(self, text: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut bytes = [0; BYTES_MAX];
        let mut len = 0;
        for mut number in [self.units, self.epoch.into(), self.tick] {
            while number > 0x7f {
                bytes[len] = (number & 0x7f) as u8 | 0x80;
                len += 1;
                number >>= 7;
            }
            bytes[len] = (number & 0x7f) as u8;
            len += 1;
        }
        // The buffer fits the longest text, so this does not fail.
        let written = URL_SAFE_NO_PAD.encode_slice(&bytes[..len], text).unwrap_or(0);
        &text[..written]
    }

    /// Reads a text. Returns `None` if it was never handed out.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.len() > TEXT_MAX {
            return None;
        }
        let mut bytes = [0; BYTES_MAX];
        let len = URL_SAFE_NO_PAD.decode_slice(text, &mut bytes).ok()?;
        let mut rest = bytes.get(..len)?;
        let units = take_number(&mut rest)?;
        let epoch = u16::try_from(take_number(&mut rest)?).ok()?;
        let tick = take_number(&mut rest)?;
        (rest.is_empty() && Cost::new(units).is_ok()).then_some(Self { units, epoch, tick })
    }
}

/// Reads a varint, in its shortest form only: a receipt has one spelling.
fn take_number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0u64;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let part = u64::from(first & 0x7f);
        // No bit may be lost at the top.
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if first & 0x80 == 0 {
            return (*first != 0 || shift == 0).then_some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests;
