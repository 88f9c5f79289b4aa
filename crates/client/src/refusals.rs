//! A client's own count of 429s, and when it stops by itself.

use core::time::Duration;

use slidegate::Quota;

use crate::count::Count;
use crate::settings::Settings;

/// A scope's own count of 429s.
///
/// Some services shut out who keeps sending after refusals. So a client that is refused too often
/// stops by itself.
#[derive(Debug, Default)]
pub(crate) struct Refusals {
    /// None before the first.
    count: Option<Count>,
    stopped_until: Duration,
}

impl Refusals {
    /// Notes a 429; the one that makes too many stops the scope.
    pub(crate) fn note(&mut self, settings: &Settings, now: Duration) {
        let (most, window) = (settings.refusals_max, settings.refusals_window);
        if self.count.is_none() {
            // The settings were checked against the same bounds, so this is a quota.
            self.count = Quota::new(most, window).and_then(Count::new).ok();
        }
        let Some(count) = &self.count else { return };
        let _receipt = count.take(1, now);
        if count.used(now) >= most {
            self.stopped_until = now.saturating_add(window);
            self.count = None;
        }
    }

    /// How long the scope is stopped; zero if it is not.
    pub(crate) fn stop(&self, now: Duration) -> Duration {
        self.stopped_until.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn too_many_within_the_window_stop_and_it_starts_anew_afterwards() {
        let settings = Settings::builder().refusals(3, seconds(60)).build().unwrap();
        let mut refusals = Refusals::default();
        for at in [0, 50, 61] {
            refusals.note(&settings, seconds(at));
            assert_eq!(refusals.stop(seconds(at)), Duration::ZERO, "the first is too old");
        }
        refusals.note(&settings, seconds(62));
        assert_eq!(refusals.stop(seconds(62)), seconds(60));
        assert_eq!(refusals.stop(seconds(122)), Duration::ZERO);
        refusals.note(&settings, seconds(122));
        assert_eq!(refusals.stop(seconds(122)), Duration::ZERO);
    }

    #[test]
    fn one_can_be_too_many() {
        let settings = Settings::builder().refusals(1, seconds(5)).build().unwrap();
        let mut refusals = Refusals::default();
        refusals.note(&settings, seconds(7));
        assert_eq!(refusals.stop(seconds(7)), seconds(5));
    }
}
