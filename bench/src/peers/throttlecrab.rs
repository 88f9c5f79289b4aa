//! throttlecrab: GCRA in a plain map that takes `&mut self`.

use parking_lot::Mutex;
use throttlecrab::{PeriodicStore, RateLimiter};

use crate::clock;
use crate::subject::{Subject, WINDOW_SECONDS};

/// throttlecrab with its periodic store in a mutex, created for the expected number of keys.
pub(crate) struct Throttlecrab {
    limiter: Mutex<RateLimiter<PeriodicStore>>,
    limit: i64,
}

impl Throttlecrab {
    /// `limit` units per minute for about `keys` keys.
    pub(crate) fn new(limit: u32, keys: usize) -> Self {
        let store = PeriodicStore::builder().capacity(keys).build();
        Self { limiter: Mutex::new(RateLimiter::new(store)), limit: i64::from(limit) }
    }
}

impl Subject for Throttlecrab {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        const PERIOD: i64 = WINDOW_SECONDS.cast_signed();
        let mut limiter = self.limiter.lock();
        let answer = limiter.rate_limit(key, self.limit, self.limit, PERIOD, 1, clock::wall());
        answer.is_ok_and(|(allowed, _)| allowed)
    }
}
