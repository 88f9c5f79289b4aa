//! The number of 429s of a scope.

use core::time::Duration;

use slidegate::Quota;

use crate::settings::Settings;
use crate::unit_counter::UnitCounter;

/// The number of 429s of a scope.
///
/// Some services block clients that keep sending after refusals, so a scope that is refused too
/// often is stopped.
#[derive(Debug, Default)]
pub(crate) struct RefusalCounter {
    /// `None` before the first.
    count: Option<UnitCounter>,
    stopped_until: Duration,
}

impl RefusalCounter {
    /// Records a 429, and stops the scope if there are too many.
    pub(crate) fn note(&mut self, settings: &Settings, now: Duration) {
        let (most, window) = (settings.refusals_max, settings.refusals_window);
        if self.count.is_none() {
            // The settings were checked against the same bounds, so this is a valid quota.
            self.count = Quota::new(most, window).and_then(UnitCounter::new).ok();
        }
        let Some(count) = &self.count else { return };
        let _receipt = count.take(1, now);
        if count.used(now) >= most {
            self.stopped_until = now.saturating_add(window);
            self.count = None;
        }
    }

    /// Returns the time for which the scope is stopped, or zero.
    pub(crate) fn stop(&self, now: Duration) -> Duration {
        self.stopped_until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests;
