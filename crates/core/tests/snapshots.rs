//! Snapshots: the same decisions after a restore, aged by the time that passed.
//!
//! What could go wrong: a key that is lost or forgotten, a denial that outlives its window because
//! the clock went back, a key that gets more because the new table is smaller.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use slidegate::{
    Algorithm, Cost, Decision, Limiter, LimiterBuilder, ManualClock, OnFull, Policy, Quota,
};
use slidegate_testkit::Random;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];
const KEYS: u64 = 200;
const MINUTE: Duration = Duration::from_secs(60);
const START_MS: u64 = 1_700_000_012_345;
const START: Duration = Duration::from_millis(START_MS);

// Both limiters continue after the restart, to detect differences that one comparison would miss.
#[test]
fn decisions_are_the_same_after_a_restart() {
    for (algorithm, quotas) in variants() {
        let (before, clock) = busy(algorithm, quotas);
        let (after, report) = restore(&save(&before), builder(algorithm, quotas, &clock));
        assert_eq!((report, before.stats().keys), (after.stats().keys, after.stats().keys));
        let mut random = Random::new(3);
        for step in 0..5000 {
            clock.advance(Duration::from_micros(random.between(0, 100_000)));
            let (key, cost) = (random.between(0, KEYS), cost(random.between(1, 5)));
            let (old, new) = (before.check_cost(&key, cost), after.check_cost(&key, cost));
            assert_eq!(
                without_receipt(&old),
                without_receipt(&new),
                "{algorithm:?}, {quotas} quotas, step {step}"
            );
            assert_eq!(before.usage(&key), after.usage(&key), "{algorithm:?}, step {step}");
            assert_eq!(before.history(&key), after.history(&key), "{algorithm:?}, step {step}");
        }
    }
}

// Time passes while the program is down.
#[test]
fn state_is_older_by_the_time_that_passed() {
    for (algorithm, quotas) in variants() {
        for passed in [1, 30_000, 59_999, 60_000, 90_000, 150_000, 10_000_000_000] {
            let (before, clock) = busy(algorithm, quotas);
            let saved = save(&before);
            clock.advance(Duration::from_millis(passed));
            let (after, _) = restore(&saved, builder(algorithm, quotas, &clock));
            for key in 0..KEYS {
                let (old, new) = (before.check(&key), after.check(&key));
                assert_eq!(
                    without_receipt(&old),
                    without_receipt(&new),
                    "{algorithm:?}, {passed} ms, key {key}"
                );
            }
        }
    }
}

// A wall clock that was set back must neither forget units nor lock keys until it has caught up.
#[test]
fn a_clock_that_went_back_neither_forgets_nor_locks() {
    let mut wrong = Vec::new();
    for (algorithm, quotas) in variants() {
        for back in [1, 30_000, 60_000, 61_234, 600_000, 1_000_000_000_000] {
            let (before, _) = busy(algorithm, quotas);
            let clock = ManualClock::new(before_now(back));
            let (after, _) = restore(&save(&before), builder(algorithm, quotas, &clock));
            let mut denied = Vec::new();
            let mut more = 0;
            for key in 0..KEYS {
                let (old, new) = (before.peek(&key), after.peek(&key));
                more += u64::from(new.remaining() > old.remaining());
                denied.extend((!new.is_allowed()).then_some(key));
            }
            // A log counts for one window; the others count whole windows or segments.
            clock.advance(longest(quotas) * if is_log(algorithm) { 1 } else { 2 });
            let locked = denied.iter().filter(|key| !after.check(*key).is_allowed()).count();
            if denied.is_empty() || more > 0 || locked > 0 {
                let state = format!("{algorithm:?}, {quotas} quotas, {back} ms back");
                wrong.push(format!("{state}: {more} given more, {locked} locked"));
            }
        }
    }
    assert!(wrong.is_empty(), "of {KEYS} keys:\n{}", wrong.join("\n"));
}

// The weight of the previous window depends on the progress of the current one, so a window that
// starts at another time after the restart would drop most of its units.
#[test]
fn a_clock_that_went_back_does_not_reweigh_the_previous_window() {
    for algorithm in ALGORITHMS {
        let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333 + 1));
        let before = builder(algorithm, 1, &clock).build().unwrap();
        assert!(before.check_cost("alice", cost(20)).is_allowed());
        clock.advance(Duration::from_secs(59));
        let saved = save(&before);
        let old = before.peek("alice");
        for back in 1..=60 {
            let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333 + 60 - back));
            let (after, _) = restore(&saved, builder(algorithm, 1, &clock));
            let new = after.peek("alice");
            let (old, new) = (old.remaining(), new.remaining());
            assert!(new <= old, "{algorithm:?}, {back} s back: {new} units left instead of {old}");
        }
    }
}

// The sketch contains keys over their limit from when the table was full; a restart must not lose
// them.
#[test]
fn the_sketch_is_restored() {
    let mut wrong = Vec::new();
    for (algorithm, quotas) in variants() {
        for on_full in [OnFull::Overflow, OnFull::Lru] {
            // Other secrets and shards: they determine which keys do not fit.
            for secret in 0..6 {
                let clock = ManualClock::new(START);
                let small = || small(algorithm, quotas, &clock, 64 << 10).on_full(on_full);
                let before = small().secret([secret; 16]).build().unwrap();
                flood(&before);
                clock.advance(Duration::from_secs(20));
                let (after, _) = restore(&save(&before), small());
                let (bytes, forgiven) = (after.stats().bytes, forgiven(&before, &after).len());
                if bytes > 64 << 10 || forgiven > 0 {
                    let state =
                        format!("{algorithm:?}, {quotas} quotas, {on_full:?}, secret {secret}");
                    wrong.push(format!("{state}: {forgiven} keys forgiven, {bytes} bytes"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "of 8000 keys:\n{}", wrong.join("\n"));
}

// Not all keys fit into a smaller table. The others must still be counted.
#[test]
fn a_smaller_memory_limit_forgets_no_key() {
    let mut wrong = Vec::new();
    for (algorithm, quotas) in variants() {
        for (from, to) in [(4 << 20, 128 << 10), (256 << 10, 128 << 10), (64 << 10, 4 << 20)] {
            let clock = ManualClock::new(START);
            let builder = small(algorithm, quotas, &clock, from).secret([7; 16]);
            let before = builder.build().unwrap();
            flood(&before);
            let (after, _) = restore(&save(&before), small(algorithm, quotas, &clock, to));
            let (bytes, forgiven) = (after.stats().bytes, forgiven(&before, &after).len());
            if bytes > to || forgiven > 0 {
                let sizes = format!("{} to {} KiB", from >> 10, to >> 10);
                let result = format!("{forgiven} keys forgiven, {bytes} bytes");
                wrong.push(format!("{algorithm:?}, {quotas} quotas, {sizes}: {result}"));
            }
        }
    }
    assert!(wrong.is_empty(), "of 8000 keys:\n{}", wrong.join("\n"));
}

// A different number of shards must not lose keys.
#[test]
fn another_number_of_shards_forgets_no_key() {
    for memory in [4 << 20, 64 << 10] {
        for (from, to) in [(8, 2), (2, 8)] {
            let clock = ManualClock::new(START);
            let small = |shards| small(Algorithm::Log, 1, &clock, memory).shards(shards);
            let before = small(from).secret([7; 16]).build().unwrap();
            flood(&before);
            let (after, _) = restore(&save(&before), small(to));
            let forgiven = forgiven(&before, &after).len();
            assert_eq!(forgiven, 0, "of 8000 keys in {memory} bytes, {from} to {to} shards");
        }
    }
}

// A key with a tier is kept for the tier's window, which the policy does not know.
#[test]
fn tiers_are_kept() {
    for algorithm in ALGORITHMS {
        let clock = ManualClock::new(START);
        let before = builder(algorithm, 1, &clock).build().unwrap();
        let day = [Quota::per_day(5)];
        let tier = before.tier(&day).unwrap();
        assert!(before.with(&tier).unwrap().check_cost("alice", cost(5)).is_allowed());
        let (after, _) = restore(&save(&before), builder(algorithm, 1, &clock));
        let tier = after.tier(&day).unwrap();
        clock.advance(2 * MINUTE);
        after.sweep(usize::MAX);
        assert!(
            !after.with(&tier).unwrap().check_cost("alice", cost(5)).is_allowed(),
            "{algorithm:?}"
        );
    }
}

// Requests may arrive before the program has created its tiers again. The windows of those tiers
// are kept until nothing in the snapshot counts any more, also across a second restart.
#[test]
fn keys_of_a_longer_tier_are_kept_until_the_tier_is_created() {
    for algorithm in ALGORITHMS {
        let clock = ManualClock::new(START);
        let before = builder(algorithm, 1, &clock).build().unwrap();
        let day = [Quota::per_day(5)];
        let tier = before.tier(&day).unwrap();
        assert!(before.with(&tier).unwrap().check_cost("alice", cost(5)).is_allowed());
        let mut saved = save(&before);
        for _ in 0..2 {
            let (after, _) = restore(&saved, builder(algorithm, 1, &clock));
            clock.advance(3 * MINUTE);
            for key in 0..1000_u64 {
                assert!(after.check(&key).is_allowed());
            }
            after.sweep(usize::MAX);
            saved = save(&after);
        }
        let (after, _) = restore(&saved, builder(algorithm, 1, &clock));
        let tier = after.tier(&day).unwrap();
        let allowed = after.with(&tier).unwrap().check_cost("alice", cost(5)).is_allowed();
        assert!(!allowed, "{algorithm:?}: forgiven");

        let (after, _) = restore(&saved, builder(algorithm, 1, &clock));
        clock.advance(2 * 24 * 60 * MINUTE);
        let keys_left = |limiter: &Limiter| {
            for _ in 0..3 {
                limiter.sweep(usize::MAX);
            }
            limiter.stats().keys
        };
        assert_eq!(keys_left(&after), 0, "{algorithm:?}: nothing counts any more");
        assert!(after.check("bob").is_allowed());
        let (after, _) = restore(&save(&after), builder(algorithm, 1, &clock));
        clock.advance(2 * MINUTE);
        assert_eq!(keys_left(&after), 0, "{algorithm:?}: the removed tier is over");
    }
}

// Keys move when a table grows: a save in steps must include every key that existed from the start.
#[test]
fn a_concurrent_save_includes_every_key() {
    let clock = ManualClock::new(START);
    let limiter = builder(Algorithm::Log, 1, &clock).build().unwrap();
    for key in 0..20_000_u64 {
        assert!(limiter.check(&key).is_allowed());
    }
    let done = AtomicBool::new(false);
    let snapshots: Vec<_> = thread::scope(|scope| {
        for thread in 1..=2_u64 {
            let (limiter, done) = (&limiter, &done);
            scope.spawn(move || {
                // New keys make the tables grow, and resets move keys into the holes.
                for key in (thread << 40)..(thread << 40) + 150_000 {
                    let _ = limiter.check(&key);
                    let _ = limiter.check(&(key % 20_000));
                    if key % 3 == 0 {
                        limiter.reset(&key);
                    }
                }
                done.store(true, Ordering::Relaxed);
            });
        }
        let mut snapshots = Vec::new();
        while !done.load(Ordering::Relaxed) || snapshots.is_empty() {
            snapshots.push(save(&limiter));
        }
        snapshots
    });
    let hold = limiter.stats().longest_hold;
    println!("{} saves, longest hold {hold:?}", snapshots.len());
    assert!(hold > Duration::ZERO, "a save reports how long it held a lock");
    for snapshot in snapshots.iter().step_by(snapshots.len().div_ceil(4)) {
        let (after, _) = restore(snapshot, builder(Algorithm::Log, 1, &clock));
        let lost = (0..20_000_u64).filter(|key| after.usage(key).units(0) == 0).count();
        assert_eq!(lost, 0);
        assert!(after.stats().keys >= 20_000);
    }
}

fn variants() -> impl Iterator<Item = (Algorithm, usize)> {
    ALGORITHMS.into_iter().flat_map(|algorithm| [(algorithm, 1), (algorithm, 2)])
}

fn is_log(algorithm: Algorithm) -> bool {
    matches!(algorithm, Algorithm::Log | Algorithm::LogCapped { .. })
}

fn builder(algorithm: Algorithm, quotas: usize, clock: &ManualClock) -> LimiterBuilder {
    let quotas = [Quota::per_minute(20), Quota::per_hour(45)][..quotas].to_vec();
    let policy = Policy::builder("saved").quotas(quotas).algorithm(algorithm).build().unwrap();
    Limiter::builder(policy).clock(clock.clone())
}

fn small(
    algorithm: Algorithm,
    quotas: usize,
    clock: &ManualClock,
    memory_limit: usize,
) -> LimiterBuilder {
    builder(algorithm, quotas, clock).memory_limit(memory_limit)
}

fn longest(quotas: usize) -> Duration {
    if quotas == 1 { MINUTE } else { 60 * MINUTE }
}

/// Returns a limiter after five minutes of requests below and above the limit.
fn busy(algorithm: Algorithm, quotas: usize) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(before_now(300_000));
    let limiter = builder(algorithm, quotas, &clock).build().unwrap();
    let mut random = Random::new(1);
    for _ in 0..20_000 {
        clock.advance(Duration::from_millis(15));
        let key = random.between(0, random.clone().between(0, KEYS));
        let _ = limiter.check_cost(&key, cost(random.between(1, 3)));
    }
    (limiter, clock)
}

fn before_now(millis: u64) -> Duration {
    Duration::from_millis(START_MS - millis)
}

/// Sends requests for 8000 keys, of which every fourth uses up its limit.
fn flood(limiter: &Limiter) {
    for key in 0..8000_u64 {
        let _ = limiter.check_cost(&key, cost(if key % 4 == 0 { 20 } else { 1 }));
    }
}

/// Returns the keys that were denied before and are not after.
fn forgiven(before: &Limiter, after: &Limiter) -> Vec<u64> {
    let denied = |limiter: &Limiter, key: &u64| !limiter.peek(key).is_allowed();
    (0..8000).filter(|key| denied(before, key) && !denied(after, key)).collect()
}

fn save(limiter: &Limiter) -> Vec<u8> {
    let mut snapshot = Vec::new();
    limiter.save(&mut snapshot).unwrap();
    snapshot
}

fn restore(snapshot: &[u8], builder: LimiterBuilder) -> (Limiter, u64) {
    let (limiter, report) = builder.restore(&mut &*snapshot).unwrap();
    (limiter, report.keys)
}

/// Returns the parts of a decision without the receipt, whose epoch may differ.
fn without_receipt(decision: &Decision) -> (bool, Vec<slidegate::QuotaDecision>) {
    (decision.is_allowed(), decision.quotas().to_vec())
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}
