//! Receipts as short text: units, epoch, tick and a number.
//!
//! Each number is a little-endian base 128 varint, and the bytes are base64 for URLs without padding.
//! The text is not a proof: any client of this service may also refund.

mod used;

use core::sync::atomic::{AtomicU64, Ordering};
use std::hash::{BuildHasher, RandomState};
use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use slidegate::{Cost, Decision, Error, Receipt};
use slidegate_gate::{Gate, TierId};

use self::used::{Claim, ReceiptUse};

/// The parts of a receipt that are sent. The client sends the key and the policy along with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PortableReceipt {
    units: u64,
    epoch: u16,
    tick: u64,
    /// Distinguishes receipts of the same tick, so that the use of each can be remembered. Receipts of
    /// older versions have none.
    number: Option<u64>,
}

/// Ten bytes for each 64-bit number and three for the 16-bit one, rounded up to groups of three.
const BYTES_MAX: usize = 33;

/// The longest text.
pub(crate) const TEXT_MAX: usize = BYTES_MAX / 3 * 4;

/// The number of the next receipt. Each process starts somewhere else, so that numbers from before a
/// restart do not come again.
static NEXT: LazyLock<AtomicU64> =
    LazyLock::new(|| AtomicU64::new(RandomState::new().hash_one(()) >> 16));

impl PortableReceipt {
    /// Returns the receipt of a decision. A degraded decision has none: its units were not recorded in
    /// the store, which would return those of other requests instead.
    pub(crate) fn of(decision: &Decision) -> Option<Self> {
        decision.receipt().filter(|_| !decision.is_degraded()).map(Self::new)
    }

    fn new(receipt: &Receipt) -> Self {
        let (units, epoch, tick) = (receipt.units(), receipt.epoch(), receipt.tick());
        // Only uniqueness matters.
        Self { units, epoch, tick, number: Some(NEXT.fetch_add(1, Ordering::Relaxed)) }
    }

    /// Returns to `gate` the units that earlier uses of the receipt left, and returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. Nothing is remembered then.
    pub(crate) async fn refund(
        self,
        gate: &Gate,
        key: &[u8],
        tier: Option<TierId>,
    ) -> Result<u64, Error> {
        let Ok(claim) = Claim::new(self.number, self.units) else { return Ok(0) };
        let ReceiptUse { left, charged } = claim.before();
        if left == 0 {
            return Ok(0);
        }
        let refunded = gate.refund(key, tier, self.over(left, gate, key)).await?;
        claim.conclude(ReceiptUse {
            left: left.saturating_sub(refunded),
            charged: charged.saturating_sub(refunded),
        });
        Ok(refunded)
    }

    /// Corrects what the receipt charged to `actual`, and returns how many units are charged in all. The
    /// same settlement again changes nothing and returns the same. A receipt of which nothing is
    /// charged any more is void.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. Nothing is remembered then.
    pub(crate) async fn settle(
        self,
        gate: &Gate,
        key: &[u8],
        tier: Option<TierId>,
        actual: u64,
    ) -> Result<u64, Error> {
        let claim = match Claim::new(self.number, self.units) {
            Ok(claim) => claim,
            Err(ReceiptUse { charged, .. }) => return Ok(charged),
        };
        let ReceiptUse { left, charged } = claim.before();
        let after = if charged == 0 {
            ReceiptUse { left, charged }
        } else if actual < charged {
            let wanted = left.saturating_sub(charged - actual);
            let kept = match left {
                0 => 0,
                _ => gate.settle(key, tier, self.over(left, gate, key), wanted).await?,
            };
            ReceiptUse { left: kept, charged: charged - left.saturating_sub(kept) }
        } else {
            // Debt is recorded now, so it is not a part of what can be refunded.
            let base = left.max(1);
            let wanted = base.saturating_add(actual - charged);
            let total = gate.settle(key, tier, self.over(base, gate, key), wanted).await?;
            ReceiptUse { left, charged: charged.saturating_add(total.saturating_sub(base)) }
        };
        claim.conclude(after);
        Ok(after.charged)
    }

    /// A receipt over `units` for a key of a gate.
    fn over(self, units: u64, gate: &Gate, key: &[u8]) -> Receipt {
        gate.receipt(key, units, self.tick, self.epoch)
    }

    /// Writes the text into a buffer.
    pub(crate) fn encode(self, text: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut bytes = [0; BYTES_MAX];
        let mut len = 0;
        let numbers = [Some(self.units), Some(self.epoch.into()), Some(self.tick), self.number];
        for mut number in numbers.into_iter().flatten() {
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
        let number = if rest.is_empty() { None } else { Some(take_number(&mut rest)?) };
        let is_valid = rest.is_empty() && Cost::new(units).is_ok();
        is_valid.then_some(Self { units, epoch, tick, number })
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
