//! The response of a server.

use core::time::Duration;
use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use slidegate_http::AdvertisedLimits;

/// The status of a response and the limits that it advertises.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    status: StatusCode,
    limits: AdvertisedLimits,
}

impl Answer {
    /// Creates an answer with this status and these limits.
    pub fn new(status: StatusCode, limits: AdvertisedLimits) -> Self {
        Self { status, limits }
    }

    /// Reads the fields of a response that arrived at `now`, a time since the epoch.
    ///
    /// Dates are measured by the server's clock if the response has a date, because the local clock
    /// may be wrong.
    pub fn read(status: StatusCode, headers: &HeaderMap, now: Duration) -> Self {
        let here = SystemTime::UNIX_EPOCH.checked_add(now).unwrap_or(SystemTime::UNIX_EPOCH);
        let there = AdvertisedLimits::date(headers, here).unwrap_or(here);
        Self::new(status, AdvertisedLimits::read(headers, there))
    }

    /// Returns the limits that the server advertises.
    pub fn limits(&self) -> &AdvertisedLimits {
        &self.limits
    }

    /// Returns `true` if the server refused the request: 429 or 503.
    pub fn is_refused(&self) -> bool {
        self.is_over_quota() || self.status == StatusCode::SERVICE_UNAVAILABLE
    }

    /// Returns `true` if a quota was used up: 429.
    pub fn is_over_quota(&self) -> bool {
        self.status == StatusCode::TOO_MANY_REQUESTS
    }

    /// Returns the wait that the server requested, if it refused the request and the time is in the
    /// future.
    pub(crate) fn delay(&self) -> Option<Duration> {
        let delay = match (self.is_over_quota(), self.is_refused()) {
            (true, _) => Some(self.limits.wait()),
            // The quotas of a 503 need not be the reason for it.
            (false, true) => self.limits.retry_after(),
            (false, false) => None,
        };
        delay.filter(|delay| !delay.is_zero())
    }
}
