//! Chance, for spreading what many processes would do at once. Not for secrets.

use core::hash::{BuildHasher, Hasher};
use core::sync::atomic::{AtomicU64, Ordering};
use core::time::Duration;
use std::collections::hash_map::RandomState;

/// A source of chance that starts elsewhere in every process.
#[derive(Debug)]
pub(crate) struct Jitter {
    keys: RandomState,
    count: AtomicU64,
}

impl Jitter {
    pub(crate) fn new() -> Self {
        Self { keys: RandomState::new(), count: AtomicU64::new(0) }
    }

    /// A time from zero to `most`.
    pub(crate) fn up_to(&self, most: Duration) -> Duration {
        let nanos = u64::try_from(most.as_nanos()).unwrap_or(u64::MAX);
        let drawn = (u128::from(self.bits()) * (u128::from(nanos) + 1)) >> 64;
        Duration::from_nanos(u64::try_from(drawn).unwrap_or(nanos))
    }

    fn bits(&self) -> u64 {
        let mut hasher = self.keys.build_hasher();
        hasher.write_u64(self.count.fetch_add(1, Ordering::Relaxed));
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spreads_over_the_whole_range() {
        let (jitter, most) = (Jitter::new(), Duration::from_millis(100));
        let drawn: Vec<_> = (0..1000).map(|_| jitter.up_to(most)).collect();
        assert!(drawn.iter().all(|time| *time <= most));
        assert!(drawn.iter().any(|time| *time < most / 10));
        assert!(drawn.iter().any(|time| *time > most * 9 / 10));
        assert_eq!(jitter.up_to(Duration::ZERO), Duration::ZERO);
    }
}
