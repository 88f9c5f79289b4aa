//! Any header fields into `AdvertisedLimits::read`: no panic, no wait beyond the bound, the same
//! result twice.
//!
//! What could go wrong: a number that overflows, a date out of range, a slice in the middle
//! of a character, a field so long that reading it does not end.

#![no_main]

use std::time::{Duration, SystemTime};

use http::{HeaderMap, HeaderValue};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use slidegate_http::AdvertisedLimits;

#[derive(Debug, Arbitrary)]
struct Input {
    /// Seconds since the epoch; before it when negative.
    now: i32,
    lines: Vec<(Field, Vec<u8>)>,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Field {
    RateLimit,
    RateLimitPolicy,
    RateLimitLimit,
    RateLimitRemaining,
    RateLimitReset,
    XRateLimitLimit,
    XRateLimitRemaining,
    XRateLimitReset,
    XRateLimitResetAfter,
    XRateLimitLimitDashed,
    RetryAfter,
    Age,
    Date,
}

fuzz_target!(|input: Input| run(&input));

fn run(input: &Input) {
    let mut headers = HeaderMap::new();
    for (field, value) in &input.lines {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(field.name(), value);
        }
    }
    let distance = Duration::from_secs(input.now.unsigned_abs().into());
    let now = match input.now {
        ..0 => SystemTime::UNIX_EPOCH - distance,
        _ => SystemTime::UNIX_EPOCH + distance,
    };
    let limits = AdvertisedLimits::read(&headers, now);
    let _ = AdvertisedLimits::date(&headers, now);
    assert!(limits.wait() <= AdvertisedLimits::WAIT_MAX);
    assert!(limits.retry_after() <= Some(AdvertisedLimits::WAIT_MAX));
    assert!(limits.quotas().len() <= 64);
    for quota in limits.quotas() {
        assert!(quota.reset_after() <= Some(AdvertisedLimits::WAIT_MAX));
        assert!(quota.window() <= Some(AdvertisedLimits::WAIT_MAX));
    }
    assert_eq!(AdvertisedLimits::read(&headers, now), limits);
}

impl Field {
    fn name(self) -> &'static str {
        match self {
            Self::RateLimit => "ratelimit",
            Self::RateLimitPolicy => "ratelimit-policy",
            Self::RateLimitLimit => "ratelimit-limit",
            Self::RateLimitRemaining => "ratelimit-remaining",
            Self::RateLimitReset => "ratelimit-reset",
            Self::XRateLimitLimit => "x-ratelimit-limit",
            Self::XRateLimitRemaining => "x-ratelimit-remaining",
            Self::XRateLimitReset => "x-ratelimit-reset",
            Self::XRateLimitResetAfter => "x-ratelimit-reset-after",
            Self::XRateLimitLimitDashed => "x-rate-limit-limit",
            Self::RetryAfter => "retry-after",
            Self::Age => "age",
            Self::Date => "date",
        }
    }
}
