//! Memory for requests that are not complete yet.
//!
//! One HTTP/2 connection may have a hundred requests in flight, so the maximum size of a body alone
//! does not bound the memory that a few clients take by sending requests slowly.

use core::fmt;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use slidegate_gate::{Count, Kind, Page};

use super::timeouts::Activity;

/// The bytes of each connection that are not counted, so that usual clients are served also while the
/// budget is used up. The number of connections bounds them.
pub(super) const OWN: usize = 16 << 10;

/// The default maximum of all incomplete requests, in bytes.
pub const BODIES_MAX: usize = 64 << 20;

/// Bounds the bytes of incomplete requests, over all connections of the data listeners.
#[derive(Debug)]
pub struct BodyBudget {
    max: usize,
    used: AtomicUsize,
    /// Requests that were not read because of the maximum.
    refused: Count,
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetUsedUp;

impl fmt::Display for BudgetUsedUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(
            "too many incomplete requests are being received: retry later, or raise \
             `limits.bodies_max_mb`",
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

    /// Adds the bytes in use and the refused requests to a page of metrics.
    pub(crate) fn write_metrics(&self, page: &mut Page) {
        let name = "slidegate_incomplete_body_bytes";
        page.family(name, Kind::Gauge, "Bytes of incomplete requests that are being received.");
        page.sample(&[], self.used() as u64);
        let name = "slidegate_bodies_refused_total";
        page.family(name, Kind::Counter, "Requests refused because of `limits.bodies_max_mb`.");
        page.sample(&[], self.refused.get());
    }

    // Only the number matters, so no ordering is needed.
    fn take(&self, bytes: usize) -> Result<(), BudgetUsedUp> {
        let sum = |used: usize| used.checked_add(bytes).filter(|used| *used <= self.max);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum) {
            Ok(_) => Ok(()),
            Err(_) => {
                self.refused.add(1);
                Err(BudgetUsedUp)
            }
        }
    }

    fn give_back(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// The bytes of one incomplete request, until dropped.
#[derive(Debug)]
pub(crate) struct BodyShare {
    budget: Arc<BodyBudget>,
    activity: Arc<Activity>,
    bytes: usize,
}

impl BodyShare {
    /// Starts a request of a connection, without any bytes.
    pub(crate) fn new(budget: &Arc<BodyBudget>, activity: &Arc<Activity>) -> Self {
        Self { budget: Arc::clone(budget), activity: Arc::clone(activity), bytes: 0 }
    }

    /// Sets the number of bytes that the request takes.
    ///
    /// # Errors
    ///
    /// Returns an error if the budget is used up. Fewer bytes than before always fit.
    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), BudgetUsedUp> {
        if bytes == self.bytes {
            return Ok(());
        }
        let mut held = self.activity.held.lock();
        let now = (*held - self.bytes).saturating_add(bytes);
        // What all requests of the connection take beyond its own bytes.
        let (before, after) = (held.saturating_sub(OWN), now.saturating_sub(OWN));
        if after > before {
            self.budget.take(after - before)?;
        } else {
            self.budget.give_back(before - after);
        }
        (*held, self.bytes) = (now, bytes);
        Ok(())
    }
}

impl Drop for BodyShare {
    fn drop(&mut self) {
        // Nothing is refused that returns bytes.
        let _ = self.hold(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_its_own_bytes_while_the_budget_is_used_up() {
        let budget = BodyBudget::new(1000);
        let (one, other) = (Arc::default(), Arc::default());
        let mut large = BodyShare::new(&budget, &one);
        large.hold(OWN).unwrap();
        assert_eq!(budget.used(), 0);
        large.hold(OWN + 1000).unwrap();
        assert_eq!(budget.used(), 1000);
        // Requests of one connection share its bytes.
        let mut second = BodyShare::new(&budget, &one);
        assert_eq!(second.hold(1), Err(BudgetUsedUp));
        let mut small = BodyShare::new(&budget, &other);
        small.hold(OWN).unwrap();
        assert_eq!(small.hold(OWN + 1), Err(BudgetUsedUp));
        drop(small);
        assert_eq!((budget.used(), budget.refused.get()), (1000, 2));
        large.hold(OWN).unwrap();
        second.hold(10).unwrap();
        assert_eq!(budget.used(), 10);
        drop(large);
        assert_eq!(budget.used(), 0);
    }
}
