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
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    after: ReceiptUse,
    is_in_use: bool,
}

/// The exclusive use of a receipt. Dropped before [`conclude`](Claim::conclude), nothing is remembered of
/// it.
#[derive(Debug)]
pub(super) struct Claim {
    number: Option<u64>,
    before: ReceiptUse,
}

impl Claim {
    /// Claims the receipt of this number over `units`. A receipt without a number can always be claimed.
    ///
    /// # Errors
    ///
    /// If another request is using it: what the uses before that left.
    pub(super) fn new(number: Option<u64>, units: u64) -> Result<Self, ReceiptUse> {
        let unused = ReceiptUse { left: units, charged: units };
        let Some(number) = number else { return Ok(Self { number: None, before: unused }) };
        let mut used = USED.lock();
        if let Some(entry) = used.by_number.get_mut(&number) {
            if entry.is_in_use {
                return Err(entry.after);
            }
            entry.is_in_use = true;
            return Ok(Self { number: Some(number), before: entry.after });
        }
        while used.order.len() >= USED_MAX {
            let oldest = used.order.pop_front();
            oldest.and_then(|oldest| used.by_number.remove(&oldest));
        }
        used.by_number.insert(number, Entry { after: unused, is_in_use: true });
        used.order.push_back(number);
        Ok(Self { number: Some(number), before: unused })
    }

    /// Returns what the uses so far left.
    pub(super) fn before(&self) -> ReceiptUse {
        self.before
    }

    /// Remembers what this use left.
    pub(super) fn conclude(mut self, after: ReceiptUse) {
        self.before = after;
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(number) = self.number else { return };
        if let Some(entry) = USED.lock().by_number.get_mut(&number) {
            *entry = Entry { after: self.before, is_in_use: false };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receipt_is_used_by_one_request_at_a_time_and_continues_where_it_was() {
        let number = Some(u64::MAX);
        let unused = ReceiptUse { left: 5, charged: 5 };
        drop(Claim::new(number, 5).unwrap());
        let claim = Claim::new(number, 5).unwrap();
        assert_eq!(claim.before(), unused);
        assert_eq!(Claim::new(number, 5).unwrap_err(), unused);
        let after = ReceiptUse { left: 2, charged: 3 };
        claim.conclude(after);
        assert_eq!(Claim::new(number, 5).unwrap().before(), after);
        assert!(Claim::new(None, 5).is_ok() && Claim::new(None, 5).is_ok());
    }

    #[test]
    fn the_number_of_remembered_receipts_is_bounded() {
        for number in 0..USED_MAX as u64 + 10 {
            drop(Claim::new(Some(number), 1).unwrap());
        }
        let used = USED.lock();
        assert!(used.order.len() <= USED_MAX && used.by_number.len() <= USED_MAX);
    }
}
