//! Keys that do not fit into the table, and are counted by the sketches alone.
//!
//! What could go wrong: a retry time that is too early, a peek that knows only the table.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{Algorithm, Limiter, ManualClock, OnFull, Policy, Quota, RetryAfter};

/// A limiter whose table is full of keys that are in use.
struct Full {
    limiter: Limiter,
    clock: ManualClock,
    start: Duration,
    known: u64,
}

impl Full {
    fn new(algorithm: Algorithm) -> Self {
        let start = Duration::from_secs(60 * 28_333_333);
        let clock = ManualClock::new(start);
        let policy = Policy::builder("full").quota(Quota::per_minute(10)).algorithm(algorithm);
        let builder = Limiter::builder(policy.build().unwrap()).clock(clock.clone());
        let builder = builder.memory_limit(1 << 16).on_full(OnFull::Overflow).shards(1);
        let limiter = builder.build().unwrap();
        let known = (0..100_000).find(|key: &u64| limiter.check(key).is_estimated()).unwrap();
        Self { limiter, clock, start, known }
    }

    /// Advances to a number of seconds after the start, and uses all keys of the table.
    fn advance_to(&self, seconds: u64) {
        self.clock.set(self.start + Duration::from_secs(seconds));
        (0..self.known).for_each(|key| drop(self.limiter.check(&key)));
    }
}

const ALGORITHMS: [Algorithm; 3] = [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra];

#[test]
fn an_overflow_key_is_allowed_when_its_retry_after_has_passed() {
    for algorithm in ALGORITHMS {
        let full = Full::new(algorithm);
        full.advance_to(1);
        (0..10).for_each(|_| assert!(full.limiter.check("alice").is_allowed()));
        full.advance_to(30);
        let denial = full.limiter.check("alice");
        assert!(!denial.is_allowed() && denial.is_estimated());
        let RetryAfter::After(wait) = denial.retry_after() else { panic!("{denial:?}") };
        // The next request of any overflow key comes late in the second window.
        full.advance_to(55);
        full.advance_to(100);
        assert!(full.limiter.check("bob").is_estimated());
        full.advance_to(30 + wait.as_secs());
        let decision = full.limiter.check("alice");
        assert!(decision.is_allowed() && decision.is_estimated(), "{algorithm:?} {decision:?}");
    }
}

#[test]
fn peek_decides_an_overflow_key_as_check_does() {
    for algorithm in ALGORITHMS {
        let full = Full::new(algorithm);
        full.advance_to(1);
        for _ in 0..12 {
            let peek = full.limiter.peek("alice");
            let check = full.limiter.check("alice");
            assert!(peek.is_estimated() && check.is_estimated());
            assert_eq!(peek.is_allowed(), check.is_allowed(), "{algorithm:?}");
            assert_eq!(peek.retry_after(), check.retry_after(), "{algorithm:?}");
        }
    }
}
