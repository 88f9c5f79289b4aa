//! governor, keyed: GCRA in atomics in a `DashMap`.

use core::num::NonZeroU32;
use core::time::Duration;

use governor::clock::{Clock, DefaultClock, FakeRelativeClock};
use governor::middleware::NoOpMiddleware;
use governor::state::keyed::DashMapStateStore;
use governor::{Quota, RateLimiter};

use crate::subject::{Subject, Timed};

/// governor with its default store, and its default clock by default.
///
/// Its map holds `String` keys and its `check_key` wants `&String`, so each thread writes its key
/// into one string that it keeps: governor pays for a copy, not for an allocation.
#[derive(Debug)]
pub(crate) struct Governor<C: Clock = DefaultClock> {
    limiter: RateLimiter<String, DashMapStateStore<String>, C, NoOpMiddleware<C::Instant>>,
    clock: C,
}

impl Governor {
    /// `limit` units per minute, with governor's default clock.
    pub(crate) fn new(limit: NonZeroU32) -> Self {
        Self::with_clock(limit, DefaultClock::default())
    }
}

impl Governor<FakeRelativeClock> {
    /// `limit` units per minute, with a manual clock.
    pub(crate) fn timed(limit: NonZeroU32) -> Self {
        Self::with_clock(limit, FakeRelativeClock::default())
    }
}

impl<C: Clock + Clone> Governor<C> {
    fn with_clock(limit: NonZeroU32, clock: C) -> Self {
        let quota = Quota::per_minute(limit);
        let limiter = RateLimiter::dashmap_with_clock(quota, clock.clone());
        Self { limiter, clock }
    }
}

impl<C: Clock + Clone + Sync> Subject for Governor<C>
where
    C::Instant: Sync,
{
    type Scratch = String;

    #[inline]
    fn check(&self, scratch: &mut String, key: &str) -> bool {
        scratch.clear();
        scratch.push_str(key);
        self.limiter.check_key(scratch).is_ok()
    }
}

impl Timed for Governor<FakeRelativeClock> {
    fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }
}
