//! pingora-limits: a count-min sketch without keys.

use core::time::Duration;

use pingora_limits::rate::Rate;

use crate::subject::{Subject, WINDOW_SECONDS};

/// pingora's `Rate`, used as `observe(key) <= limit`.
///
/// A sketch of 4 rows of 1024 counters: right for a handful of keys, wrong for a million. So it
/// is measured only with one key. It counts denied requests too.
pub(crate) struct Pingora {
    rate: Rate,
    limit: isize,
}

impl Pingora {
    /// `limit` units in a fixed minute.
    pub(crate) fn new(limit: u32) -> Self {
        let rate = Rate::new(Duration::from_secs(WINDOW_SECONDS));
        Self { rate, limit: isize::try_from(limit).unwrap_or(isize::MAX) }
    }
}

impl Subject for Pingora {
    type Scratch = ();

    #[inline]
    fn check(&self, _lane: &mut (), key: &str) -> bool {
        self.rate.observe(&key, 1) <= self.limit
    }
}
