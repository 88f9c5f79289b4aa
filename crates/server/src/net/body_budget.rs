//! Memory for request bodies that are not complete yet.
//!
//! One HTTP/2 connection may have a thousand requests in flight, so the maximum size of a body alone
//! does not bound the memory that a few clients take by sending bodies slowly.

use core::fmt;
use core::ops::Deref;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use slidegate_gate::{Count, Kind, Page};

/// The bytes of each body that are not counted, so that usual requests are read also while the budget
/// is used up.
const FREE: usize = 16 << 10;

/// The default maximum of all incomplete bodies, in bytes.
pub const BODIES_MAX: usize = 64 << 20;

/// Bounds the bytes of incomplete bodies, over all connections of the HTTP and gRPC listeners.
#[derive(Debug)]
pub struct BodyBudget {
    max: usize,
    used: AtomicUsize,
    /// Bodies that were not read because of the maximum.
    refused: Count,
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetUsedUp;

impl fmt::Display for BudgetUsedUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "too many large requests are being received: retry later, or raise `limits.bodies_max_mb`",
        )
    }
}

impl BodyBudget {
    /// Creates a budget of `max` bytes.
    pub fn new(max: usize) -> Arc<Self> {
        Arc::new(Self { max, used: AtomicUsize::new(0), refused: Count::default() })
    }

    /// Returns the number of bytes in use.
    pub fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    /// Adds the bytes in use and the refused bodies to a page of metrics.
    pub(crate) fn write_metrics(&self, page: &mut Page) {
        let name = "slidegate_incomplete_body_bytes";
        page.family(name, Kind::Gauge, "Bytes of large request bodies that are being received.");
        page.sample(&[], self.used() as u64);
        let name = "slidegate_bodies_refused_total";
        page.family(name, Kind::Counter, "Requests refused because of `limits.bodies_max_mb`.");
        page.sample(&[], self.refused.get());
    }
}

/// The bytes of one body, until dropped.
#[derive(Debug)]
pub(crate) struct BodyShare<B: Deref<Target = BodyBudget>> {
    budget: B,
    length: usize,
    /// The part of `length` that is counted.
    taken: usize,
}

impl<B: Deref<Target = BodyBudget>> BodyShare<B> {
    /// Starts a body without any bytes.
    pub(crate) fn new(budget: B) -> Self {
        Self { budget, length: 0, taken: 0 }
    }

    /// Adds bytes that arrived.
    ///
    /// # Errors
    ///
    /// Returns an error if the budget is used up.
    pub(crate) fn add(&mut self, bytes: usize) -> Result<(), BudgetUsedUp> {
        self.length = self.length.saturating_add(bytes);
        let more = self.length.saturating_sub(FREE) - self.taken;
        if more == 0 {
            return Ok(());
        }
        let max = self.budget.max;
        let sum = |used: usize| used.checked_add(more).filter(|used| *used <= max);
        // Only the number matters, so no ordering is needed.
        if self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_err() {
            self.budget.refused.add(1);
            return Err(BudgetUsedUp);
        }
        self.taken += more;
        Ok(())
    }
}

impl<B: Deref<Target = BodyBudget>> Drop for BodyShare<B> {
    fn drop(&mut self) {
        if self.taken > 0 {
            self.budget.used.fetch_sub(self.taken, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_bodies_are_read_while_the_budget_is_used_up() {
        let budget = BodyBudget::new(1000);
        let mut large = BodyShare::new(&*budget);
        for _ in 0..16 {
            large.add(1024).unwrap();
        }
        assert_eq!(budget.used(), 0);
        large.add(600).unwrap();
        large.add(400).unwrap();
        assert_eq!(budget.used(), 1000);
        let mut small = BodyShare::new(&*budget);
        small.add(FREE).unwrap();
        assert_eq!(small.add(1), Err(BudgetUsedUp));
        drop(small);
        assert_eq!((budget.used(), budget.refused.get()), (1000, 1));
        drop(large);
        assert_eq!(budget.used(), 0);
    }
}
