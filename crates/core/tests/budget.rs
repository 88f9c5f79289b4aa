//! Another memory budget for a limiter in use.
//!
//! What could go wrong: room that is not used or never given back, a key that is forgotten because
//! there is less, or one that gets more than its limit on the way.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, OnFull, Policy, Quota};

const LARGE: usize = 16 << 20;
const SMALL: usize = 6 << 20;
const LIMIT: u64 = 3;
const MINUTE: Duration = Duration::from_secs(60);

fn limiter(memory: usize, on_full: OnFull, algorithm: Algorithm) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333));
    let quota = Quota::new(LIMIT, Duration::from_secs(60)).unwrap();
    let policy = Policy::builder("budget").quota(quota).algorithm(algorithm).build().unwrap();
    let builder = Limiter::builder(policy).memory_limit(memory).on_full(on_full);
    (builder.clock(clock.clone()).build().unwrap(), clock)
}

/// Checks each key once. Returns the number of keys that the table decided for.
fn fill(limiter: &Limiter, keys: core::ops::Range<u64>) -> usize {
    keys.filter(|key| !limiter.check(key).is_estimated()).count()
}

/// Keys that take nearly all of the larger budget.
fn keys_of(limiter: &Limiter) -> u64 {
    let mut keys = 0;
    while limiter.stats().bytes < LARGE / 8 * 5 {
        let _ = fill(limiter, keys..keys + 1000);
        keys += 1000;
    }
    assert_eq!(limiter.stats().overflowed, 0);
    keys
}

#[test]
fn more_is_there_at_once() {
    for algorithm in [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra] {
        let (limiter, _) = limiter(SMALL, OnFull::Overflow, algorithm);
        let exact = fill(&limiter, 0..500_000);
        assert!(exact < 500_000, "{algorithm:?}: the table was never full");
        let before = limiter.stats();
        assert_eq!(limiter.set_memory_limit(64 << 20), 64 << 20);
        // Each of them fits. The sketch denies those that share all counts with other keys.
        let fresh = fill(&limiter, 1_000_000..1_050_000);
        assert!(fresh > 35_000, "{algorithm:?}: {fresh}");
        let after = limiter.stats();
        assert_eq!((after.memory_limit, after.overflowed), (64 << 20, before.overflowed));
        assert!(after.keys >= before.keys + fresh as u64 && after.bytes <= after.memory_limit);
    }
}

// An alert at 80 % must fire before keys overflow, whatever the sketches may use.
#[test]
fn the_used_share_is_one_when_the_table_is_full_and_less_before() {
    for algorithm in [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra] {
        let (limiter, clock) = limiter(SMALL, OnFull::Overflow, algorithm);
        let share = || {
            let stats = limiter.stats();
            (stats.table_bytes * 100 / stats.table_limit, stats.overflowed)
        };
        let (mut before, mut keys) = (share(), 0);
        while before.1 == 0 {
            fill(&limiter, keys..keys + 100);
            keys += 100;
            let now = share();
            assert!(now.1 == 0 || before.0 > 80, "{algorithm:?}: {before:?} then {now:?}");
            before = now;
        }
        // The first shard that is full leaves a few bytes that others may still take.
        assert!(before.0 >= 99, "{algorithm:?}: {before:?}");
        let is_full = (0..1000).any(|round| {
            fill(&limiter, keys + round * 100..keys + round * 100 + 100);
            share().0 == 100
        });
        assert!(is_full, "{algorithm:?}: {:?} after 100,000 keys more", share());
        clock.advance(3 * MINUTE);
        while limiter.sweep(100_000) > 0 {}
        assert!(share().0 < 20, "{algorithm:?}: {:?} after everything expired", share());
    }
}

#[test]
fn a_sweep_counts_the_units_and_bytes_of_logs() {
    let (limiter, clock) = limiter(LARGE, OnFull::Overflow, Algorithm::Log);
    assert_eq!((limiter.stats().log_units, limiter.stats().log_bytes), (0, 0));
    for _ in 0..LIMIT {
        fill(&limiter, 0..1000);
        clock.advance(Duration::from_millis(700));
    }
    let sweep = |limiter: &Limiter| {
        // Three times: the first pass may have begun in the middle.
        for _ in 0..3 {
            limiter.sweep(1 << 20);
        }
        limiter.stats()
    };
    assert_eq!(sweep(&limiter).log_units, 1000 * LIMIT);
    let big = Policy::new("big", Quota::per_hour(100_000)).unwrap();
    let big = Limiter::builder(big).clock(clock.clone()).build().unwrap();
    for _ in 0..1000 {
        let _ = big.check("alice");
        clock.advance(Duration::from_millis(300));
    }
    assert_eq!(sweep(&big).log_units, 1000);
    assert!((1000..32_768).contains(&big.stats().log_bytes), "{:?}", big.stats());
    clock.advance(Duration::from_secs(7200));
    let swept = sweep(&big);
    assert_eq!((swept.log_units, swept.log_bytes), (0, 0));
}

#[test]
fn lowering_the_limit_keeps_all_keys_and_makes_new_keys_wait_for_room() {
    for algorithm in [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra] {
        let (limiter, clock) = limiter(LARGE, OnFull::Overflow, algorithm);
        let keys = keys_of(&limiter);
        limiter.set_memory_limit(SMALL);
        assert!(limiter.stats().bytes > SMALL, "{algorithm:?}: there was room for all");
        for key in (0..keys).step_by(97) {
            let second = limiter.check(&key);
            assert!(!second.is_estimated() && second.is_allowed(), "{algorithm:?} {key}");
            assert_eq!(second.remaining(), LIMIT - 2, "{algorithm:?} {key}");
            assert!(limiter.check(&key).is_allowed() && !limiter.check(&key).is_allowed());
        }
        let fresh = keys + 1..keys + 1000;
        for key in fresh.clone() {
            assert!(limiter.check(&key).is_estimated(), "{algorithm:?} {key}");
            assert!((0..9).filter(|_| limiter.check(&key).is_allowed()).count() < 3);
        }
        // When the others have expired there is room for them, and no more than there may be.
        clock.advance(3 * MINUTE);
        limiter.sweep(usize::MAX);
        assert!(limiter.stats().bytes <= SMALL, "{algorithm:?} {:?}", limiter.stats());
        assert_eq!(fill(&limiter, fresh.clone()), fresh.count(), "{algorithm:?}");
    }
}

// A table whose keys stay must give its empty slots back all the same.
#[test]
fn with_less_a_table_that_is_not_nearly_empty_shrinks_too() {
    let (limiter, clock) = limiter(LARGE, OnFull::Overflow, Algorithm::Log);
    let keys = keys_of(&limiter);
    clock.advance(MINUTE / 2);
    for key in 0..keys * 11 / 20 {
        let _ = limiter.check(&key);
    }
    // Keys that were checked twice are still there; the others were evicted.
    clock.advance(MINUTE * 3 / 4);
    // A quarter of it is the sketches', so the table is too large.
    limiter.set_memory_limit(limiter.stats().bytes);
    limiter.sweep(usize::MAX);
    limiter.sweep(usize::MAX);
    let stats = limiter.stats();
    assert_eq!(stats.keys, keys * 11 / 20);
    assert!(stats.bytes <= stats.memory_limit, "{stats:?}");
    assert!(!limiter.check(&(keys * 2)).is_estimated(), "{stats:?}");
}

#[test]
fn with_less_keys_are_moved_out_and_get_no_more_than_their_limit() {
    let (limiter, _) = limiter(LARGE, OnFull::Lru, Algorithm::Log);
    let keys = keys_of(&limiter);
    for key in 0..keys {
        assert!(limiter.check_cost(&key, Cost::new(LIMIT - 1).unwrap()).is_allowed());
    }
    limiter.set_memory_limit(SMALL);
    let mut new = keys;
    for _ in 0..20 * keys {
        if limiter.stats().bytes <= SMALL {
            break;
        }
        let _ = fill(&limiter, new..new + 1000);
        new += 1000;
    }
    limiter.sweep(usize::MAX);
    limiter.sweep(usize::MAX);
    let stats = limiter.stats();
    assert!(stats.evictions > 0 && stats.bytes <= SMALL, "{stats:?}");
    for key in (0..keys).step_by(31) {
        assert!(!limiter.check(&key).is_allowed(), "{key} was forgotten");
    }
}

// Sketches have their share of the budget, whose size was chosen when they were opened.
#[test]
fn shrinking_a_sketch_forgives_no_usage() {
    let (limiter, _) = limiter(LARGE, OnFull::Overflow, Algorithm::Log);
    let _ = fill(&limiter, 0..600_000);
    let full = limiter.stats();
    assert!(full.overflowed > 100_000, "{full:?}");
    let guilty = 2_000_000..2_000_500_u64;
    for key in guilty.clone() {
        for _ in 0..2 * LIMIT {
            let _ = limiter.check(&key);
        }
    }
    limiter.set_memory_limit(SMALL);
    let sketches = LARGE / 4 - SMALL / 4;
    assert!(limiter.stats().bytes + sketches / 10 * 9 <= full.bytes, "{:?}", limiter.stats());
    for key in guilty {
        assert!(!limiter.check(&key).is_allowed(), "{key} was forgiven");
    }
}

#[test]
fn a_budget_is_no_less_than_the_shards_need() {
    let (limiter, _) = limiter(LARGE, OnFull::Overflow, Algorithm::Log);
    let least = limiter.set_memory_limit(0);
    assert!((1 << 20..SMALL).contains(&least), "{least}");
    assert_eq!(limiter.stats().memory_limit, least);
    assert_eq!(limiter.set_memory_limit(least + 1), least + 1);
    let (few, _) = self::limiter(1 << 16, OnFull::Overflow, Algorithm::Log);
    assert_eq!(few.set_memory_limit(1), few.memory_limit_min());
    assert_eq!(few.memory_limit_min(), 40 << 10);
    let (two, _) = self::limiter(Limiter::MEMORY_MIN, OnFull::Overflow, Algorithm::Log);
    assert_eq!(two.set_memory_limit(1), Limiter::MEMORY_MIN);
}

// A reload may say that from now on new keys are denied, or make room again.
#[test]
fn what_happens_to_new_keys_can_be_changed() {
    for algorithm in [Algorithm::Log, Algorithm::Counter, Algorithm::Gcra] {
        let (limiter, _) = limiter(SMALL, OnFull::Overflow, algorithm);
        fill(&limiter, 0..500_000);
        let evictions = limiter.stats().evictions;
        limiter.set_on_full(OnFull::Deny);
        let mut fresh = 1_000_000..;
        assert!(fresh.by_ref().take(100).all(|key: u64| !limiter.check(&key).is_allowed()));
        limiter.set_on_full(OnFull::Lru);
        assert!(
            fresh.by_ref().take(100).filter(|key| limiter.check(key).is_allowed()).count() > 50
        );
        assert!(limiter.stats().evictions > evictions, "{algorithm:?}: no key was evicted");
        limiter.set_on_full(OnFull::Overflow);
        let evictions = limiter.stats().evictions;
        let estimated = fresh.take(100).filter(|key| limiter.check(key).is_estimated()).count();
        assert!(estimated > 50, "{algorithm:?}: {estimated} of 100 in the sketch");
        assert_eq!(limiter.stats().evictions, evictions);
    }
}
