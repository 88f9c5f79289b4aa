//! What came back from a server.

use core::time::Duration;
use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use slidegate_http::AdvertisedLimits;

/// What came back from a server, as far as its quotas go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: StatusCode,
    told: AdvertisedLimits,
}

impl Answer {
    /// A status, and what was told with it.
    pub fn new(status: StatusCode, told: AdvertisedLimits) -> Self {
        Self { status, told }
    }

    /// Reads the fields of a response that came at `now`, a time since the epoch.
    ///
    /// Dates are measured by the server's own clock where it told the time: this machine's may
    /// be wrong.
    pub fn read(status: StatusCode, headers: &HeaderMap, now: Duration) -> Self {
        let here = SystemTime::UNIX_EPOCH.checked_add(now).unwrap_or(SystemTime::UNIX_EPOCH);
        let there = AdvertisedLimits::date(headers, here).unwrap_or(here);
        Self::new(status, AdvertisedLimits::read(headers, there))
    }

    /// What was told.
    pub fn told(&self) -> &AdvertisedLimits {
        &self.told
    }

    /// Whether the server asked for less: 429 or 503.
    pub fn is_refused(&self) -> bool {
        self.is_over_quota() || self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Whether a quota was used up: 429.
    pub fn is_over_quota(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// How long the server asked to wait, if this refuses and a time was told that is not past.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let told = match (self.is_over_quota(), self.is_refused()) {
            (true, _) => Some(self.told.wait()),
            // The quotas of a 503 need not be the reason for it.
            (false, true) => self.told.retry_after(),
            (false, false) => None,
        };
        told.filter(|delay| !delay.is_zero())
    }
}
