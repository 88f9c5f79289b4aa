//! What became of receipts that were used, so that a second use does not return units twice.

use std::collections::{HashMap, VecDeque};
use std::sync::LazyLock;

use parking_lot::Mutex;

/// The maximum number of used receipts that are remembered; the oldest are forgotten first.
const USED_MAX: usize = 1 << 16;

static USED: LazyLock<Mutex<UsedReceipts>> = LazyLock::new(Mutex::default);

/// What the uses of a receipt left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ReceiptUse {
    /// Units of the receipt that were not returned.
    pub(super) left: u64,
    /// Units charged in all, debt included.
    pub(super) charged: u64,
}

#[derive(Debug, Default)]
struct UsedReceipts {
    by_number: HashMap<u64, Entry>,
    /// The same numbers, oldest first.
    order: VecDeque<u64>,
    /// The largest number that was forgotten. A receipt up to it may have been used.
    forgotten: Option<u64>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    after: ReceiptUse,
    is_in_use: bool,
    /// Whether this process issued it.
    is_own: bool,
}

/// The exclusive use of a receipt. What it left when it is dropped is remembered.
#[derive(Debug)]
pub(super) struct Claim {
    number: u64,
    pub(super) receipt: ReceiptUse,
}

impl Claim {
    /// Claims the receipt of this number, which is `unused` unless a use is remembered.
    ///
    /// # Errors
    ///
    /// If another request is using it: what the uses before that left.
    pub(super) fn new(number: u64, unused: ReceiptUse) -> Result<Self, ReceiptUse> {
        USED.lock().claim(number, unused)
    }
}

impl UsedReceipts {
    fn claim(&mut self, number: u64, mut unused: ReceiptUse) -> Result<Claim, ReceiptUse> {
        if let Some(entry) = self.by_number.get_mut(&number) {
            if entry.is_in_use {
                return Err(entry.after);
            }
            entry.is_in_use = true;
            return Ok(Claim { number, receipt: entry.after });
        }
        if self.forgotten.is_some_and(|forgotten| number <= forgotten) {
            unused.left = 0;
        }
        while self.order.len() >= USED_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            let entry = self.by_number.remove(&oldest);
            // Numbers of other processes return nothing anyway.
            if entry.is_some_and(|entry| entry.is_own) {
                self.forgotten = self.forgotten.max(Some(oldest));
            }
        }
        let is_own = unused.left > 0;
        self.by_number.insert(number, Entry { after: unused, is_in_use: true, is_own });
        self.order.push_back(number);
        Ok(Claim { number, receipt: unused })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(entry) = USED.lock().by_number.get_mut(&self.number) {
            entry.after = self.receipt;
            entry.is_in_use = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unused(units: u64) -> ReceiptUse {
        ReceiptUse { left: units, charged: units }
    }

    #[test]
    fn a_receipt_is_used_by_one_request_at_a_time_and_continues_where_it_was() {
        let number = u64::MAX;
        drop(Claim::new(number, unused(5)).unwrap());
        let mut claim = Claim::new(number, unused(5)).unwrap();
        assert_eq!(claim.receipt, unused(5));
        assert_eq!(Claim::new(number, unused(5)).unwrap_err(), unused(5));
        claim.receipt = ReceiptUse { left: 2, charged: 3 };
        drop(claim);
        assert_eq!(
            Claim::new(number, unused(5)).unwrap().receipt,
            ReceiptUse { left: 2, charged: 3 }
        );
    }

    #[test]
    fn forgotten_receipts_return_nothing_and_their_number_is_bounded() {
        let mut used = UsedReceipts::default();
        let first = 1 << 40;
        for number in 0..USED_MAX as u64 + 10 {
            let claim = used.claim(first + number, unused(1)).unwrap();
            core::mem::forget(claim);
        }
        assert!(used.order.len() <= USED_MAX && used.by_number.len() <= USED_MAX);
        for (number, left) in [(first, 0), (first + 9, 0), (first + USED_MAX as u64 + 10, 1)] {
            let claim = used.claim(number, unused(1)).unwrap();
            assert_eq!(claim.receipt.left, left);
            core::mem::forget(claim);
        }
    }
}
