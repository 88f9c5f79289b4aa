//! Tests of `deny`.

use super::*;
use core::sync::atomic::{AtomicU64, Ordering};
use slidegate::ManualClock;

const MS: Duration = Duration::from_millis(1);
const WINDOW: Duration = Duration::from_secs(60);
const ALICE: TieredKey = TieredKey { key: 1, tier: 0 };

/// A cache in a process whose time is set by the test.
struct Process<C = ManualClock> {
    cache: DenyCache<C>,
    clock: ManualClock,
    start: Instant,
}

const EPOCH: Duration = Duration::from_secs(1_700_000_000);

impl Process {
    fn new(keys: usize, cap: Option<Duration>) -> Self {
        Self::with_clock(keys, cap, Clone::clone)
    }
}

impl<C: Clock> Process<C> {
    fn with_clock(
        keys: usize,
        cap: Option<Duration>,
        read: impl FnOnce(&ManualClock) -> C,
    ) -> Self {
        let clock = ManualClock::new(EPOCH);
        let cache = DenyCache::with_clock(keys, cap, read(&clock));
        Self { cache, clock, start: Instant::now() }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_nanos(self.clock.now()) - EPOCH
    }

    /// Stores the reply to a call that was sent now and answered immediately.
    fn put(&self, key: TieredKey, cost: u64, retry_ms: u32) {
        self.put_sent(self.now(), key, cost, retry_ms);
    }

    fn put_sent(&self, sent: Instant, key: TieredKey, cost: u64, retry_ms: u32) {
        let times = ReplyTimes {
            sent,
            received: self.now(),
            server: Duration::ZERO,
            into_tick: Duration::ZERO,
        };
        self.put_with_times(times, key, cost, retry_ms);
    }

    fn put_with_times(&self, times: ReplyTimes, key: TieredKey, cost: u64, retry_ms: u32) {
        let (wait, read) = (retry_ms * MS, self.cache.clock.now());
        let quota = QuotaDecision::new(5, 0, wait.into(), wait);
        let decision = Decision::new(Outcome::Deny, &[quota], None);
        let denied = DeniedCheck { key, cost, window: WINDOW, decision: &decision };
        self.cache.put_at(read, self.now(), denied, times);
    }

    fn retry_after(&self, key: TieredKey, cost: u64) -> Option<Duration> {
        self.cache.get(key, cost)?.decision().retry_after().duration()
    }

    fn denies(&self, key: TieredKey, cost: u64) -> bool {
        self.cache.get(key, cost).is_some()
    }
}

#[test]
fn repeats_until_time_frees_units() {
    let process = Process::new(16, None);
    process.put(ALICE, 1, 1000);
    assert!(!process.denies(TieredKey { key: 2, tier: 0 }, 1));
    assert!(!process.denies(TieredKey { key: 1, tier: 2 }, 1), "another tier");
    process.clock.advance(400 * MS);
    let decision = process.cache.get(ALICE, 1).unwrap().decision();
    assert_eq!(decision.retry_after(), RetryAfter::After(600 * MS));
    assert_eq!(decision.reset_after(), 600 * MS);
    process.clock.advance(599 * MS);
    assert!(process.denies(ALICE, 1));
    process.clock.advance(MS);
    assert!(!process.denies(ALICE, 1));
}

#[test]
fn expires_when_redis_would_allow_and_counts_the_wait_from_the_reply() {
    let process = Process::new(16, None);
    let sent = process.now();
    process.clock.advance(5 * MS);
    let times =
        ReplyTimes { sent, received: process.now(), server: Duration::ZERO, into_tick: MS / 4 };
    // Processing the reply may take a while.
    process.clock.advance(2 * MS);
    process.put_with_times(times, ALICE, 1, 100);
    process.clock.advance(43 * MS);
    assert_eq!(process.retry_after(ALICE, 1), Some(55 * MS));
    process.clock.advance(49 * MS + MS / 2);
    assert!(process.denies(ALICE, 1));
    process.clock.advance(MS / 4);
    assert!(!process.denies(ALICE, 1));
}

/// A clock with varying lag.
#[derive(Debug)]
struct Late {
    clock: ManualClock,
    by: AtomicU64,
}

impl Clock for Late {
    fn now(&self) -> u64 {
        self.clock.now() - self.by.load(Ordering::Relaxed)
    }

    fn lag(&self) -> u64 {
        100_000
    }
}

// A clock that lags more later than when the denial was received would repeat it for too long, and
// one that lags less would report a wait that is too short.
#[test]
fn lagging_clock_denies_nothing_that_redis_would_allow() {
    for (first, then) in [(0, 100_000), (100_000, 0), (50_000, 50_000)] {
        let read = |clock: &ManualClock| Late { clock: clock.clone(), by: AtomicU64::new(0) };
        let process = Process::with_clock(16, None, read);
        process.cache.clock.by.store(first, Ordering::Relaxed);
        process.put(ALICE, 1, 1000);
        process.cache.clock.by.store(then, Ordering::Relaxed);
        process.clock.advance(400 * MS);
        let wait = process.retry_after(ALICE, 1).unwrap();
        assert!(wait >= 600 * MS, "{wait:?} is too early");
        assert!(wait <= 600 * MS + MS / 5, "{wait:?} is more than two lags late");
        process.clock.advance(Duration::from_micros(599_799));
        assert!(process.denies(ALICE, 1), "ends more than two lags early");
        process.clock.advance(Duration::from_micros(201));
        assert!(!process.denies(ALICE, 1), "denied what Redis would allow");
    }
}

#[test]
fn expires_after_the_cap() {
    let process = Process::new(16, Some(100 * MS));
    process.put(ALICE, 1, 1000);
    process.clock.advance(99 * MS);
    assert!(process.denies(ALICE, 1));
    process.clock.advance(MS);
    assert!(!process.denies(ALICE, 1));
}

#[test]
fn a_smaller_cost_is_not_denied() {
    let process = Process::new(16, None);
    process.put(ALICE, 3, 1000);
    assert!(!process.denies(ALICE, 2));
    assert!(process.denies(ALICE, 3));
    assert!(process.denies(ALICE, 4));
    assert_eq!(
        process.cache.get(ALICE, 6).unwrap().decision().retry_after(),
        RetryAfter::Never,
        "above the limit"
    );
    // The denial of a larger cost neither allows the smaller one nor prolongs its wait.
    process.put(ALICE, 1, 500);
    process.put(ALICE, 4, 2000);
    assert_eq!(process.retry_after(ALICE, 1), Some(500 * MS));
    process.clock.advance(499 * MS);
    assert!(process.denies(ALICE, 1));
    process.clock.advance(MS);
    assert!(!process.denies(ALICE, 1));
    // After that, the denial of the larger cost applies.
    process.put(ALICE, 4, 1500);
    assert_eq!(process.retry_after(ALICE, 4), Some(1500 * MS));
}

#[test]
fn refunds_remove_current_and_in_flight_denials() {
    let process = Process::new(16, None);
    let tier = TieredKey { tier: 7, ..ALICE };
    let sent = process.now();
    process.put(ALICE, 1, 1000);
    process.put(tier, 1, 1000);
    process.clock.advance(MS);
    process.cache.remove(ALICE.key, process.now());
    assert!(!process.denies(ALICE, 1));
    assert!(!process.denies(tier, 1), "the same units, in another tier");
    // The reply to a call that was in flight does not include the refund.
    process.put_sent(sent, ALICE, 1, 1000);
    assert!(!process.denies(ALICE, 1));
    process.put(ALICE, 1, 1000);
    assert!(process.denies(ALICE, 1));
}

#[test]
fn holds_no_more_denials_than_it_has_room_for() {
    let process = Process::new(64, None);
    let numbered = |number: u64| TieredKey { key: number << 20, tier: 0 };
    for number in 0..1_000_000 {
        process.put(numbered(number), 1, 1000);
    }
    let kept = (0..1_000_000).filter(|number| process.denies(numbered(*number), 1)).count();
    assert_eq!(kept, 64);
}

// The server's clock may have stepped back. Then its wait is too long, and the key would be denied
// for up to another window.
#[test]
fn calls_redis_again_sixteen_times_per_window_without_a_cap() {
    let process = Process::new(16, None);
    process.put(ALICE, 1, 60_000);
    process.clock.advance(WINDOW / 17);
    assert!(process.denies(ALICE, 1));
    process.clock.advance(WINDOW / 200);
    assert!(!process.denies(ALICE, 1));
}

#[test]
fn knows_of_unexpired_units_until_time_frees_them() {
    let process = Process::new(16, Some(10 * MS));
    assert!(!process.cache.has_unexpired_units(ALICE));
    process.put(ALICE, 1, 500);
    process.clock.advance(499 * MS);
    assert!(!process.denies(ALICE, 1), "beyond the cap");
    assert!(process.cache.has_unexpired_units(ALICE));
    process.clock.advance(MS);
    assert!(!process.cache.has_unexpired_units(ALICE));
    process.put(ALICE, 1, 500);
    process.cache.remove(ALICE.key, process.now());
    assert!(!process.cache.has_unexpired_units(ALICE), "given back");
}
