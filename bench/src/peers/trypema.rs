//! trypema: buckets of 100 ms in a `DashMap`.

use std::sync::Arc;

use trypema::local::LocalRateLimiterProvider;
use trypema::{RateLimit, RateLimitDecision, RateLimiterBuilder, WindowSize};

use crate::Failure;
use crate::subject::{Subject, WINDOW_SECONDS};

/// trypema's local absolute limiter with default buckets, without its cleaning thread.
pub(crate) struct Trypema {
    provider: Arc<LocalRateLimiterProvider>,
    rate: RateLimit,
}

impl Trypema {
    /// `limit` units in a minute.
    pub(crate) fn new(limit: u32) -> Result<Self, Failure> {
        let window = WindowSize::seconds(WINDOW_SECONDS)?;
        // Its cleaning thread would run in the rounds of the others.
        let provider =
            LocalRateLimiterProvider::builder().window_size(window).disable_cleanup().build()?;
        Ok(Self { provider, rate: RateLimit::per_minute(f64::from(limit))? })
    }
}

impl Subject for Trypema {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        let decision = self.provider.absolute().inc(key, &self.rate, 1);
        matches!(decision, RateLimitDecision::Allowed)
    }
}
