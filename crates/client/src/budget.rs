//! The retry budget of a scope.

use core::time::Duration;

use crate::settings::Settings;

/// A bucket of retries: a share of the requests, and a minimum per minute.
///
/// Without it, an overloaded server would receive every request `attempts_max` times.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    /// In hundredths of a retry.
    balance: u64,
    /// The time up to which the minimum per minute has been added.
    filled_at: Duration,
}

/// The hundredths of one retry.
const RETRY: u64 = 100;

/// The maximum number of retries saved from requests, above the floor.
const SAVED_MAX: u64 = 100;

const MINUTE_NANOS: u128 = 60_000_000_000;

impl Budget {
    pub(crate) fn new(settings: &Settings, now: Duration) -> Self {
        Self { balance: u64::from(settings.budget_floor) * RETRY, filled_at: now }
    }

    /// Adds the share of a request that is sent for the first time.
    pub(crate) fn earn(&mut self, settings: &Settings, now: Duration) {
        self.fill(settings, now);
        let most = (u64::from(settings.budget_floor) + SAVED_MAX) * RETRY;
        self.balance = (self.balance + u64::from(settings.budget_percent)).min(most);
    }

    /// Takes a retry, if there is one.
    pub(crate) fn spend(&mut self, settings: &Settings, now: Duration) -> bool {
        self.fill(settings, now);
        let left = self.balance.checked_sub(RETRY);
        self.balance = left.unwrap_or(self.balance);
        left.is_some()
    }

    fn fill(&mut self, settings: &Settings, now: Duration) {
        let passed = now.saturating_sub(self.filled_at).as_nanos();
        let floor = u64::from(settings.budget_floor) * RETRY;
        let earned = passed.saturating_mul(floor.into()) / MINUTE_NANOS;
        if earned == 0 {
            // A fraction of a hundredth stays in the time since `filled_at`.
            return;
        }
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        // Time fills only up to the floor. Savings above it stay.
        let filled = self.balance.saturating_add(earned).min(floor);
        self.balance = self.balance.max(filled);
        self.filled_at = now;
    }
}

#[cfg(test)]
mod tests;
