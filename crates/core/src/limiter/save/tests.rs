//! The age of a snapshot, by the time since boot.

use super::*;
use crate::quota::Quota;
use crate::time::{Clock, MonotonicClock};

const HOUR: Duration = Duration::from_secs(3600);

/// A limiter of one unit per hour whose clock shows `ahead` more than the wall clock.
fn builder(ahead: Duration) -> LimiterBuilder {
    let policy = Policy::new("test", Quota::per_hour(1)).unwrap();
    let clock = MonotonicClock::new();
    let now = Duration::from_nanos(clock.now());
    Limiter::builder(policy).clock(clock.starting_at(now + ahead))
}

fn boot(id: u8, elapsed: Duration) -> BootTime {
    BootTime { id: [id; 16], elapsed }
}

/// Returns whether a key that was denied before is allowed after a restart. The first process saves at
/// `saved`, the second one starts at `restored` with a wall clock that is `ahead`.
fn is_forgiven(
    saved: impl Into<Option<BootTime>>,
    restored: impl Into<Option<BootTime>>,
    ahead: Duration,
) -> bool {
    let (saved, restored) = (saved.into(), restored.into());
    let before = builder(Duration::ZERO).build().unwrap();
    assert!(before.check("k").is_allowed());
    let mut snapshot = Vec::new();
    before.save_at(&mut snapshot, saved).unwrap();
    let (after, _) = builder(ahead).restore_at(&mut snapshot.as_slice(), |_| restored).unwrap();
    after.check("k").is_allowed()
}

#[test]
fn a_wall_clock_that_was_set_forward_forgives_nothing_before_the_next_boot() {
    let second = Duration::from_secs(1);
    assert!(!is_forgiven(boot(1, second), boot(1, 2 * second), 2 * HOUR));
    assert!(!is_forgiven(boot(1, second), boot(1, HOUR), 2 * HOUR));
    // An hour, the rounding of both readings, and a tick.
    assert!(is_forgiven(boot(1, second), boot(1, HOUR + 2 * second), 2 * HOUR));
    // A wall clock that was set back locks nothing.
    assert!(is_forgiven(boot(1, second), boot(1, HOUR + 2 * second), Duration::ZERO));
}

#[test]
fn after_a_boot_or_without_its_time_the_wall_clock_counts() {
    let second = Duration::from_secs(1);
    let saved = boot(1, second);
    for restored in [Some(boot(2, 2 * second)), Some(boot(1, Duration::ZERO)), None] {
        assert!(is_forgiven(saved, restored, 2 * HOUR));
        assert!(!is_forgiven(saved, restored, HOUR / 2));
    }
    assert!(is_forgiven(None, boot(1, second), 2 * HOUR));
}

#[test]
fn other_clocks_are_not_aged_by_the_time_since_boot() {
    let clock = crate::ManualClock::new(HOUR);
    let policy = Policy::new("test", Quota::per_hour(1)).unwrap();
    let builder = || Limiter::builder(policy.clone()).clock(clock.clone());
    let before = builder().build().unwrap();
    assert!(before.check("k").is_allowed());
    let mut snapshot = Vec::new();
    before.save(&mut snapshot).unwrap();
    clock.advance(HOUR);
    let (after, _) = builder().restore(&mut snapshot.as_slice()).unwrap();
    assert!(after.check("k").is_allowed());
}
