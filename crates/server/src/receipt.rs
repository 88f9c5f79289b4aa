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
    /// Identifies the receipt, and the process that issued it.
    number: u64,
}

/// Ten bytes for each 64-bit number and three for the 16-bit one, rounded up to groups of three.
const BYTES_MAX: usize = 33;

/// The longest text.
pub(crate) const TEXT_MAX: usize = BYTES_MAX / 3 * 4;

/// The numbers of the receipts that this process issued. Each process starts at another number, so
/// that numbers of an earlier run or of another daemon are not among them.
static ISSUED: LazyLock<IssuedNumbers> = LazyLock::new(IssuedNumbers::new);

struct IssuedNumbers {
    first: u64,
    next: AtomicU64,
}

impl IssuedNumbers {
    fn new() -> Self {
        let first = RandomState::new().hash_one(()) >> 1;
        Self { first, next: AtomicU64::new(first) }
    }

    fn issue(&self) -> u64 {
        // Only uniqueness matters.
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    fn has(&self, number: u64) -> bool {
        (self.first..self.next.load(Ordering::Relaxed)).contains(&number)
    }
}

impl PortableReceipt {
    /// Returns the receipt of a decision. A degraded decision has none: its units were not recorded in
    /// the store, which would return those of other requests instead.
    pub(crate) fn of(decision: &Decision) -> Option<Self> {
        decision.receipt().filter(|_| !decision.is_degraded()).map(Self::new)
    }

    fn new(receipt: &Receipt) -> Self {
        let (units, epoch, tick) = (receipt.units(), receipt.epoch(), receipt.tick());
        Self { units, epoch, tick, number: ISSUED.issue() }
    }

    /// Returns to `gate` the units that earlier uses of the receipt left, and returns their number.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. The units may have been returned, so the receipt
    /// returns no more.
    pub(crate) async fn refund(
        self,
        gate: &Gate,
        key: &[u8],
        tier: Option<TierId>,
    ) -> Result<u64, Error> {
        let Ok(mut claim) = Claim::new(self.number, self.unused()) else { return Ok(0) };
        let left = claim.receipt.left;
        self.give_back(&mut claim, left, gate, key, tier).await
    }

    /// Corrects what the receipt charged to `actual`, and returns how many units are charged in all. The
    /// same settlement again changes nothing and returns the same. Units that are recorded in addition
    /// to those of the receipt are not returned by a later settlement.
    ///
    /// # Errors
    ///
    /// Returns an error if the store did not reply. Units may have been returned, so the receipt returns
    /// no more; or recorded, and they are recorded again if the settlement is repeated.
    pub(crate) async fn settle(
        self,
        gate: &Gate,
        key: &[u8],
        tier: Option<TierId>,
        actual: u64,
    ) -> Result<u64, Error> {
        let mut claim = match Claim::new(self.number, self.unused()) {
            Ok(claim) => claim,
            Err(ReceiptUse { charged, .. }) => return Ok(charged),
        };
        let ReceiptUse { left, charged } = claim.receipt;
        if actual > charged {
            let more = gate.charge(key, tier, actual - charged).await?;
            claim.receipt.charged = charged.saturating_add(more);
        } else if actual < charged {
            self.give_back(&mut claim, left.min(charged - actual), gate, key, tier).await?;
        }
        Ok(claim.receipt.charged)
    }

    /// Returns units to `gate`, and returns their number. Units that were perhaps returned are not
    /// returned again: they could be those of another request.
    async fn give_back(
        self,
        claim: &mut Claim,
        units: u64,
        gate: &Gate,
        key: &[u8],
        tier: Option<TierId>,
    ) -> Result<u64, Error> {
        let ReceiptUse { left, charged } = claim.receipt;
        if units == 0 {
            return Ok(0);
        }
        claim.receipt.left = 0;
        let given = gate.refund(key, tier, self.over(units, gate, key)).await?;
        // If only a part was there, no more of it will be.
        let left = if given == units { left - units } else { 0 };
        claim.receipt = ReceiptUse { left, charged: charged.saturating_sub(given) };
        Ok(given)
    }

    /// Returns the state of a receipt that was not used before. One of an earlier run, or of another
    /// daemon, may have been used there, so it returns nothing.
    fn unused(self) -> ReceiptUse {
        let left = if ISSUED.has(self.number) { self.units } else { 0 };
        ReceiptUse { left, charged: self.units }
    }

    /// A receipt over `units` for a key of a gate.
    fn over(self, units: u64, gate: &Gate, key: &[u8]) -> Receipt {
        gate.receipt(key, units, self.tick, self.epoch)
    }

    /// Writes the text into a buffer.
    pub(crate) fn encode(self, text: &mut [u8; TEXT_MAX]) -> &[u8] {
        let mut bytes = [0; BYTES_MAX];
        let mut len = 0;
        for mut number in [self.units, self.epoch.into(), self.tick, self.number] {
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
        let number = take_number(&mut rest)?;
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
