//! The names of the fields.

use http::HeaderName;

pub(crate) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

pub(crate) const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
pub(crate) const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
pub(crate) const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

pub(crate) const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(crate) const X_RATELIMIT_REMAINING: HeaderName =
    HeaderName::from_static("x-ratelimit-remaining");
pub(crate) const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// A field beside `X-RateLimit-Reset` that is always in seconds from now.
pub(crate) const X_RATELIMIT_RESET_AFTER: HeaderName =
    HeaderName::from_static("x-ratelimit-reset-after");

pub(crate) const X_RATE_LIMIT_LIMIT: HeaderName = HeaderName::from_static("x-rate-limit-limit");
pub(crate) const X_RATE_LIMIT_REMAINING: HeaderName =
    HeaderName::from_static("x-rate-limit-remaining");
pub(crate) const X_RATE_LIMIT_RESET: HeaderName = HeaderName::from_static("x-rate-limit-reset");

pub(crate) const FORWARDED: HeaderName = HeaderName::from_static("forwarded");
pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
