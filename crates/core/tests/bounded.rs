//! Memory is bounded: floods of one-off keys neither push out nor lock out other keys.
//!
//! What could go wrong: a table that grows with the keys; a flood that removes the record of a key
//! over its limit; a sketch so full that other keys are denied; memory that is never released.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::print_stdout, reason = "the floods report what they measured")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, OnFull, Policy, Quota, RetryAfter};

const FLOOD: u64 = 20_000_000;
const BUDGET: usize = 256 << 20;
/// New keys that each send one request.
const FRESH: u64 = 100_000;

#[test]
fn a_flood_of_20_million_keys_at_limit_100() {
    let false_denials = flood(100);
    assert!(false_denials <= 0.001, "{:.3} % of innocent keys denied", 100.0 * false_denials);
}

#[test]
fn a_flood_of_20_million_keys_at_limit_5() {
    let false_denials = flood(5);
    assert!(false_denials <= 0.1, "{:.3} % of innocent keys denied", 100.0 * false_denials);
}

/// Runs one flood with the default settings. Returns the highest share of new keys that were
/// denied.
fn flood(limit: u64) -> f64 {
    let _alone = alone();
    let resident_before = resident();
    let (limiter, clock) = limiter(limit, BUDGET, OnFull::Overflow, Algorithm::Log);
    exhaust(&limiter, "early", limit);
    let (mut bytes_most, mut resident_most) = (0, 0);
    let mut rates = Vec::new();
    for step in 0..100 {
        for key in step * FLOOD / 100..(step + 1) * FLOOD / 100 {
            let _ = limiter.check(&key);
        }
        // In a whole minute, the first requests would expire; half a minute keeps all in one
        // window.
        clock.advance(Duration::from_millis(300));
        let stats = limiter.stats();
        assert!(stats.bytes <= stats.memory_limit, "{stats:?} after step {step}");
        bytes_most = bytes_most.max(stats.bytes);
        resident_most = resident_most.max(resident() - resident_before);
        assert!(!limiter.check("early").is_allowed(), "forgotten in step {step}");
        assert!(!limiter.peek("early").is_allowed());
        if step == 50 {
            assert!(stats.overflowed > 0, "the table was never full: the flood is too small");
            exhaust(&limiter, "late", limit);
        }
        if step > 50 {
            assert!(!limiter.check("late").is_allowed(), "forgotten in step {step}");
        }
        if step % 33 == 0 {
            rates.push(denied_of_fresh(&limiter, step));
        }
    }
    let stats = limiter.stats();
    println!(
        "limit {limit}: {} keys in the table, {} requests decided by the sketch\n\
         accounted {bytes_most} bytes, resident {resident_most} bytes, budget {BUDGET}\n\
         false denials through the flood: {rates:?}\nlongest hold {:?}",
        stats.keys, stats.overflowed, stats.longest_hold
    );
    assert!(resident_most <= BUDGET + BUDGET / 10, "{resident_most} bytes resident");
    rates.into_iter().fold(0.0, f64::max)
}

// With `lru`, the key over its limit is evicted, and its usage must be kept.
#[test]
fn an_evicted_key_over_its_limit_is_still_denied() {
    let _alone = alone();
    let quotas = [Quota::per_minute(3), Quota::per_hour(5)];
    let (mut forgiven, mut evicted) = (Vec::new(), 0);
    for (algorithm, count) in ALGORITHMS.into_iter().flat_map(|one| [(one, 1), (one, 2)]) {
        let (limiter, clock) = build(&quotas[..count], 1 << 20, OnFull::Lru, algorithm);
        exhaust(&limiter, "guilty", 3);
        for key in 0..100_000_u64 {
            let _ = limiter.check_cost(&key, Cost::new(3).unwrap());
            if key % 1000 == 0 {
                clock.advance(Duration::from_millis(10));
            }
        }
        // Many new keys share all counts with others, and are denied without a slot.
        assert!(limiter.stats().evictions > 10_000, "{algorithm:?} {:?}", limiter.stats());
        // Which key is evicted depends on the secret of the limiter.
        evicted += usize::from(limiter.usage("guilty").units(0) == 0);
        let peeked = limiter.peek("guilty").is_allowed();
        if peeked || limiter.check("guilty").is_allowed() {
            forgiven.push((algorithm, count));
        }
    }
    assert_eq!(forgiven, [], "algorithms and quotas that forgot keys over their limit");
    assert!(evicted >= ALGORITHMS.len(), "evicted in {evicted} of {} runs", 2 * ALGORITHMS.len());
}

// With `deny`, new keys get a retry time, and existing keys are not affected.
#[test]
fn a_full_table_denies_only_new_keys() {
    let _alone = alone();
    for algorithm in ALGORITHMS {
        let (limiter, _) = limiter(3, 1 << 20, OnFull::Deny, algorithm);
        assert_eq!(limiter.check("old").remaining(), 2);
        for key in 0..100_000_u64 {
            let decision = limiter.check(&key);
            if !decision.is_allowed() {
                assert_eq!(decision.retry_after(), RetryAfter::After(Duration::from_secs(60)));
                assert!(decision.is_estimated());
            }
        }
        let stats = limiter.stats();
        assert!(stats.overflowed > 50_000, "{algorithm:?} {stats:?}");
        assert!(stats.bytes <= stats.memory_limit, "{algorithm:?} {stats:?}");
        assert_eq!(limiter.check("old").remaining(), 1, "{algorithm:?}");
        assert_eq!(limiter.check("old").remaining(), 0, "{algorithm:?}");
        assert!(!limiter.check("new").is_allowed(), "{algorithm:?}");
    }
}

// After the retry time, the table must not be full of expired keys.
#[test]
fn a_full_table_accepts_new_keys_after_the_window() {
    let _alone = alone();
    let mut denied = Vec::new();
    for algorithm in ALGORITHMS {
        let (limiter, clock) = limiter(3, 1 << 20, OnFull::Deny, algorithm);
        for key in 0..100_000_u64 {
            let _ = limiter.check(&key);
        }
        clock.advance(Duration::from_secs(180));
        let fresh = (1 << 40)..(1 << 40) + 1000_u64;
        let denied_new_keys = fresh.filter(|key| !limiter.check(key).is_allowed()).count();
        denied.extend((denied_new_keys > 0).then_some((algorithm, denied_new_keys)));
    }
    assert_eq!(denied, [], "algorithms, and how many of 1000 were denied by expired keys");
}

// The same if bytes are missing and not a slot: all of the few slots that a new key sweeps may be
// empty while expired keys of its shard use all the memory.
#[test]
fn expired_keys_make_room_for_new_keys() {
    let _alone = alone();
    let mut denied = 0;
    for _ in 0..300 {
        let segments = Algorithm::Segments { count: 6 };
        let (limiter, clock) = limiter(3, 1 << 20, OnFull::Deny, segments);
        (0..12_000_u64).for_each(|key| drop(limiter.check(&key)));
        assert!(limiter.stats().overflowed > 0, "all keys fit");
        clock.advance(Duration::from_secs(180));
        let fresh = (1 << 40)..(1 << 40) + 100_u64;
        denied += fresh.filter(|key| !limiter.check(key).is_allowed()).count();
    }
    assert_eq!(denied, 0, "of 30,000 new keys");
}

// A shard whose keys have all expired is left without a table when it is swept, and the new key
// must get a new one. These secrets once caused a panic or a denial.
#[test]
fn an_emptied_shard_accepts_a_new_key() {
    let _alone = alone();
    let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333));
    for seed in (0..300_u64).chain([716, 908, 1802, 2732, 3911, 4484, 5282, 5567, 6185]) {
        let algorithm =
            Algorithm::Segments { count: [6, 20, 60][usize::try_from(seed % 3).unwrap()] };
        let policy = Policy::builder("empty").quota(Quota::per_minute(3));
        let policy = policy.algorithm(algorithm).build().unwrap();
        let mut secret = [0; 16];
        secret[..8].copy_from_slice(&seed.to_le_bytes());
        let builder = Limiter::builder(policy).clock(clock.clone()).memory_limit(1 << 16);
        let limiter = builder.on_full(OnFull::Deny).secret(secret).build().unwrap();
        (0..400 + seed % 8 * 100).for_each(|key| drop(limiter.check(&key)));
        clock.advance(Duration::from_secs(180));
        let mut fresh = (1 << 40)..(1 << 40) + 40_u64;
        assert!(fresh.all(|key| limiter.check(&key).is_allowed()), "secret {seed}");
    }
}

// Several keys are evaluated before units are taken, so the evaluation must also sweep expired
// keys. Otherwise a caller that always checks several keys would never be allowed again.
#[test]
fn expired_keys_make_room_for_pairs() {
    let _alone = alone();
    let (limiter, clock) = limiter(3, 1 << 20, OnFull::Deny, Algorithm::Log);
    (0..100_000_u64).for_each(|key| drop(limiter.check(&key)));
    assert!(!limiter.peek("new").is_allowed());
    clock.advance(Duration::from_secs(180));
    for number in 0..1000_u64 {
        let pair = [(1 << 40) + number, (1 << 41) + number];
        let asks = [0, 1].map(|at| slidegate::Ask::new(&limiter, &pair[at], Cost::ONE));
        let decisions = slidegate::check_all(&asks).unwrap();
        assert!(decisions.iter().all(slidegate::Decision::is_allowed), "pair {number}");
    }
}

// Checks outside the fast path sweep too: keys that are checked less than once per window never use
// it, and neither do policies with several quotas.
#[test]
fn rare_checks_sweep_expired_keys() {
    let one = Policy::builder("one").quota(Quota::per_minute(3));
    let several =
        Policy::builder("several").quota(Quota::per_minute(3)).quota(Quota::per_second(2));
    for policy in [one, several] {
        let clock = ManualClock::new(Duration::from_secs(1_800_000_000));
        let policy = policy.build().unwrap();
        let name = policy.name().to_owned();
        let limiter = Limiter::builder(policy).clock(clock.clone()).shards(1).build().unwrap();
        (0..1000_u64).for_each(|key| drop(limiter.check(&key)));
        for _ in 0..100_000 {
            clock.advance(Duration::from_secs(61));
            assert!(limiter.check("known").is_allowed());
        }
        assert_eq!(limiter.stats().keys, 1, "{name}");
    }
}

// New keys sweep only if something may have expired. That must not keep expired keys in the table.
#[test]
fn new_keys_drop_expired_keys() {
    let mut kept = Vec::new();
    for algorithm in ALGORITHMS {
        let (limiter, clock) = one_shard(algorithm);
        let (mut next, mut most) = (0_u64, 0);
        for _ in 0..3000 {
            (next..next + 10).for_each(|key| drop(limiter.check(&key)));
            next += 10;
            clock.advance(Duration::from_millis(600));
            most = most.max(limiter.stats().keys);
        }
        // A thousand keys arrive in each window. Some algorithms keep two windows, and a pass of
        // the sweep takes part of one.
        kept.extend((most > 2800).then_some((algorithm, most)));
    }
    assert_eq!(kept, [], "algorithms, and how many keys were in the table at most");
}

#[test]
fn charged_and_waiting_keys_drop_expired_keys() {
    let (limiter, clock) = one_shard(Algorithm::Log);
    let mut most = 0;
    for round in 0..3000_u64 {
        for key in 0..5 {
            limiter.charge(&(10 * round + key), 1);
            let wait = Duration::ZERO;
            let _ =
                limiter.wait_timeout_blocking(&(10 * round + 5 + key), Cost::ONE, wait).unwrap();
        }
        clock.advance(Duration::from_millis(600));
        most = most.max(limiter.stats().keys);
    }
    // A thousand keys arrive in each window.
    assert!(most < 2800, "{most} keys were in the table");
}

#[test]
fn charges_of_one_key_drop_expired_keys() {
    let (limiter, clock) = one_shard(Algorithm::Log);
    (0..1000_u64).for_each(|key| drop(limiter.check(&key)));
    for _ in 0..100_000 {
        clock.advance(Duration::from_secs(61));
        limiter.charge("known", 1);
    }
    assert_eq!(limiter.stats().keys, 1);
}

#[test]
fn new_keys_drop_refunded_keys() {
    let mut kept = Vec::new();
    for algorithm in ALGORITHMS {
        let (limiter, _) = one_shard(algorithm);
        let receipts = (0..1000_u64).map(|key| limiter.check(&key).into_receipt().unwrap());
        for receipt in receipts.collect::<Vec<_>>() {
            assert_eq!(limiter.refund(receipt), 1);
        }
        (1000..1500_u64).for_each(|key| drop(limiter.check(&key)));
        let keys = limiter.stats().keys;
        kept.extend((keys > 600).then_some((algorithm, keys)));
    }
    assert_eq!(
        kept,
        [],
        "algorithms, and how many keys were left of 1000 without units and 500 new"
    );
}

#[test]
fn new_keys_drop_expired_keys_of_a_snapshot() {
    let (limiter, clock) = one_shard(Algorithm::Log);
    (0..1000_u64).for_each(|key| drop(limiter.check(&key)));
    let mut snapshot = Vec::new();
    limiter.save(&mut snapshot).unwrap();
    let builder = Limiter::builder(limiter.policy().clone()).clock(clock.clone()).shards(1);
    let (limiter, _) = builder.restore(&mut snapshot.as_slice()).unwrap();
    clock.advance(Duration::from_secs(61));
    (1000..1500_u64).for_each(|key| drop(limiter.check(&key)));
    assert!(limiter.stats().keys <= 600, "{:?}", limiter.stats());
}

// If one of a pair of keys does not fit, the other is refunded, and the one that denied is
// reported.
#[test]
fn a_full_table_denies_a_pair_as_a_whole() {
    let _alone = alone();
    let (limiter, _) = limiter(3, 1 << 20, OnFull::Deny, Algorithm::Log);
    assert_eq!(limiter.check("old").remaining(), 2);
    for key in 0..100_000_u64 {
        let _ = limiter.check(&key);
    }
    let asks = [
        slidegate::Ask::new(&limiter, "old", Cost::ONE),
        slidegate::Ask::new(&limiter, "new", Cost::ONE),
    ];
    let decisions = slidegate::check_all(&asks).unwrap();
    assert!(decisions.iter().all(|decision| !decision.is_allowed()));
    assert_eq!(limiter.usage("old").units(0), 1, "nothing was taken from it");
    assert_eq!(decisions[0].retry_after(), RetryAfter::Now);
    assert_ne!(decisions[1].retry_after(), RetryAfter::Now, "it denied");
    assert!(!limiter.peek("new").is_allowed(), "peek decides as check would");
}

// Memory that a flood used must be released when it is over.
#[test]
fn memory_is_released_after_everything_has_expired() {
    let _alone = alone();
    let mut kept = Vec::new();
    for on_full in [OnFull::Overflow, OnFull::Lru, OnFull::Deny] {
        for algorithm in ALGORITHMS {
            let (limiter, clock) = limiter(3, 4 << 20, on_full, algorithm);
            let before = limiter.stats().bytes;
            for key in 0..200_000_u64 {
                let _ = limiter.check(&key);
            }
            let full = limiter.stats();
            assert!(full.bytes > full.memory_limit / 2, "{algorithm:?} {full:?}");
            clock.advance(Duration::from_secs(200));
            limiter.sweep(usize::MAX);
            let after = limiter.stats();
            if after.keys > 0 || after.bytes - before > full.bytes / 20 {
                let (keys, bytes) = (after.keys, after.bytes - before);
                kept.push(format!("{algorithm:?}, {on_full:?}: {keys} keys, {bytes} bytes"));
            }
        }
    }
    assert!(kept.is_empty(), "still there after a sweep of everything:\n{}", kept.join("\n"));
}

// Heap memory without a reservation would exceed the budget slightly for every key.
#[test]
fn one_and_two_quotas_stay_within_the_budget() {
    let _alone = alone();
    let quotas = [Quota::per_minute(3), Quota::per_hour(5)];
    let mut over = Vec::new();
    for on_full in [OnFull::Overflow, OnFull::Lru, OnFull::Deny] {
        for (algorithm, count) in ALGORITHMS.into_iter().flat_map(|one| [(one, 1), (one, 2)]) {
            let (limiter, clock) = build(&quotas[..count], 1 << 20, on_full, algorithm);
            let mut most = 0;
            for key in 0..50_000_u64 {
                let _ = limiter.check(&key);
                let _ = limiter.check(&(key / 2));
                if key % 100 == 0 {
                    clock.advance(Duration::from_millis(10));
                    most = most.max(limiter.stats().bytes);
                }
            }
            if most > 1 << 20 {
                over.push(format!("{algorithm:?}, {on_full:?}, {count} quotas: {most} bytes"));
            }
        }
    }
    assert!(over.is_empty(), "over 1048576 bytes:\n{}", over.join("\n"));
}

// The sketch counts in quanta of a limit. The quantum of a tier with a huge limit must not apply to
// other keys.
#[test]
fn a_tier_with_a_huge_limit_does_not_affect_other_keys() {
    let _alone = alone();
    let (limiter, _) = limiter(100, 1 << 20, OnFull::Overflow, Algorithm::Log);
    let huge = limiter.tier(&[Quota::new(1 << 50, Duration::from_secs(60)).unwrap()]).unwrap();
    for key in 0..30_000_u64 {
        let _ = limiter.with(&huge).unwrap().check(&key);
    }
    assert!(limiter.stats().overflowed > 10_000);
    let fresh = (1 << 40)..(1 << 40) + 10_000_u64;
    let denied =
        fresh.filter(|key| !(limiter.check(key).is_allowed() && limiter.check(key).is_allowed()));
    let denied = denied.count();
    assert!(denied <= 10, "{denied} of 10000 fresh keys denied one of two requests");
}

// A waiter must get the same result as a check.
#[test]
fn a_full_table_denies_new_keys_that_wait() {
    let _alone = alone();
    for algorithm in [Algorithm::Log, Algorithm::Gcra] {
        let (limiter, _) = limiter(3, 1 << 20, OnFull::Deny, algorithm);
        for key in 0..100_000_u64 {
            let _ = limiter.check(&key);
        }
        assert!(!limiter.check("new").is_allowed());
        let waited = limiter.wait_timeout_blocking("new", Cost::ONE, Duration::ZERO).unwrap();
        assert!(!waited.is_allowed(), "{algorithm:?}");
    }
}

// A cost above the limit is never allowed, whether the table is full or not.
#[test]
fn a_full_table_still_reports_never() {
    let _alone = alone();
    for on_full in [OnFull::Overflow, OnFull::Lru, OnFull::Deny] {
        let (limiter, _) = limiter(3, 1 << 20, on_full, Algorithm::Log);
        for key in 0..50_000_u64 {
            let _ = limiter.check(&key);
        }
        let cost = Cost::new(4).unwrap();
        assert_eq!(limiter.check_cost("new", cost).retry_after(), RetryAfter::Never, "{on_full:?}");
        assert_eq!(limiter.peek_cost("new", cost).retry_after(), RetryAfter::Never, "{on_full:?}");
        let waited = limiter.wait_timeout_blocking("new", cost, Duration::ZERO).unwrap();
        assert_eq!(waited.retry_after(), RetryAfter::Never, "{on_full:?}: a wait");
    }
}

// Long logs, not many keys, may fill the budget too. Then they are merged, and no key gets more.
#[test]
fn long_logs_stay_within_the_budget_and_the_limit() {
    let _alone = alone();
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 1024 }] {
        let (limiter, clock) = limiter(20_000, 256 << 10, OnFull::Overflow, algorithm);
        let mut admitted = [0_u64; 40];
        for _ in 0..25_000 {
            for (key, admitted) in (0_u64..).zip(&mut admitted) {
                *admitted += u64::from(limiter.check(&key).is_allowed());
            }
            clock.advance(Duration::from_millis(2));
        }
        let stats = limiter.stats();
        assert!(stats.bytes <= stats.memory_limit, "{algorithm:?} {stats:?}");
        assert_eq!(admitted, [20_000; 40], "{algorithm:?}: all came in 50 s of a minute");
    }
}

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

fn limiter(
    limit: u64,
    memory_limit: usize,
    on_full: OnFull,
    algorithm: Algorithm,
) -> (Limiter, ManualClock) {
    build(&[Quota::new(limit, Duration::from_secs(60)).unwrap()], memory_limit, on_full, algorithm)
}

/// Builds a limiter whose windows have just started, so that they still run half a minute later.
fn build(
    quotas: &[Quota],
    memory_limit: usize,
    on_full: OnFull,
    algorithm: Algorithm,
) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333));
    let quotas = quotas.iter().copied();
    let policy = Policy::builder("flood").quotas(quotas).algorithm(algorithm).build().unwrap();
    let builder = Limiter::builder(policy).clock(clock.clone());
    (builder.memory_limit(memory_limit).on_full(on_full).build().unwrap(), clock)
}

fn one_shard(algorithm: Algorithm) -> (Limiter, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(60 * 28_333_333));
    let quota = Quota::per_minute(3);
    let policy = Policy::builder("one").quota(quota).algorithm(algorithm).build().unwrap();
    let builder = Limiter::builder(policy).clock(clock.clone());
    (builder.shards(1).build().unwrap(), clock)
}

fn exhaust(limiter: &Limiter, key: &str, limit: u64) {
    for _ in 0..2 * limit {
        let _ = limiter.check(key);
    }
    assert!(!limiter.check(key).is_allowed());
}

/// Returns the share of new keys whose first request is denied.
fn denied_of_fresh(limiter: &Limiter, step: u64) -> f64 {
    let first = (1 << 40) + step * FRESH;
    let denied = (first..first + FRESH).filter(|key| !limiter.check(key).is_allowed()).count();
    f64::from(u32::try_from(denied).unwrap()) / 100_000.0
}

/// Returns the resident memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// Runs one test at a time, because they measure the memory of the process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
