//! Memory is a budget: floods of one-off keys push nobody out and lock nobody out.
//!
//! What could go wrong: a table that grows with the keys; a flood that makes a guilty key
//! forgotten; a sketch so full that innocent keys are denied; memory that never comes back.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]
#![expect(clippy::print_stdout, reason = "the floods report what they measured")]

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use slidegate::{Algorithm, Cost, Limiter, ManualClock, OnFull, Policy, Quota, RetryAfter};

const FLOOD: u64 = 20_000_000;
const BUDGET: usize = 256 << 20;
/// Fresh keys of which each asks once.
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

/// One flood against the default settings; the worst share of fresh keys that were denied.
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
        // A minute in all would let the first expire; half of one keeps all in one window.
        clock.advance(Duration::from_millis(300));
        let stats = limiter.stats();
        assert!(stats.bytes <= stats.memory_limit, "{stats:?} after step {step}");
        bytes_most = bytes_most.max(stats.bytes);
        resident_most = resident_most.max(resident() - resident_before);
        assert!(!limiter.check("early").is_allowed(), "forgotten in step {step}");
        assert!(!limiter.peek("early").is_allowed());
        if step == 50 {
            assert!(stats.overflowed > 0, "the table was never full: this floods nothing");
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
        "limit {limit}: {} keys in the table, {} requests judged by the sketch\n\
         accounted {bytes_most} bytes, resident {resident_most} bytes, budget {BUDGET}\n\
         false denials through the flood: {rates:?}\nlongest hold {:?}",
        stats.keys, stats.overflowed, stats.longest_hold
    );
    assert!(resident_most <= BUDGET + BUDGET / 10, "{resident_most} bytes resident");
    rates.into_iter().fold(0.0, f64::max)
}

// Under `lru` the guilty key is pushed out of the table; what it took must follow it.
#[test]
fn a_key_that_was_evicted_over_its_limit_comes_back_denied() {
    let _alone = alone();
    let quotas = [Quota::per_minute(3), Quota::per_hour(5)];
    let mut forgiven = Vec::new();
    for (algorithm, count) in ALGORITHMS.into_iter().flat_map(|one| [(one, 1), (one, 2)]) {
        let (limiter, clock) = build(&quotas[..count], 1 << 20, OnFull::Lru, algorithm);
        exhaust(&limiter, "guilty", 3);
        for key in 0..100_000_u64 {
            let _ = limiter.check_cost(&key, Cost::new(3).unwrap());
            if key % 1000 == 0 {
                clock.advance(Duration::from_millis(10));
            }
        }
        assert!(limiter.stats().evictions > 50_000, "{algorithm:?} {:?}", limiter.stats());
        // Aligned windows make everybody of a window equally old, so there luck decides who goes.
        let aligned = matches!(algorithm, Algorithm::Counter | Algorithm::Fixed);
        let evicted = limiter.usage("guilty").units(0) == 0;
        assert!(evicted || aligned, "{algorithm:?}: it was not evicted");
        let peeked = limiter.peek("guilty").is_allowed();
        if peeked || limiter.check("guilty").is_allowed() {
            forgiven.push((algorithm, count));
        }
    }
    assert_eq!(forgiven, [], "algorithms and quotas under which the guilty were forgiven");
}

// Under `deny` newcomers are told when to come back, and those who are in notice nothing.
#[test]
fn a_full_table_denies_new_keys_and_leaves_old_ones_alone() {
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

// Told to come back after a window, a newcomer must not find the table full of the dead.
#[test]
fn a_full_table_has_room_again_after_the_window() {
    let _alone = alone();
    let mut denied = Vec::new();
    for algorithm in ALGORITHMS {
        let (limiter, clock) = limiter(3, 1 << 20, OnFull::Deny, algorithm);
        for key in 0..100_000_u64 {
            let _ = limiter.check(&key);
        }
        clock.advance(Duration::from_secs(180));
        let fresh = (1 << 40)..(1 << 40) + 1000_u64;
        let by_the_dead = fresh.filter(|key| !limiter.check(key).is_allowed()).count();
        denied.extend((by_the_dead > 0).then_some((algorithm, by_the_dead)));
    }
    assert_eq!(denied, [], "algorithms, and how many of 1000 were denied by expired keys");
}

// The same where what is missing is not a slot but the bytes of a window: of the few slots that are
// looked at for a new key, all may be empty while the dead of its shard have all the memory.
#[test]
fn the_dead_keep_no_bytes_from_a_new_key() {
    let _alone = alone();
    let mut denied = 0;
    for _ in 0..300 {
        let segments = Algorithm::Segments { count: 6 };
        let (limiter, clock) = limiter(3, 1 << 20, OnFull::Deny, segments);
        (0..12_000_u64).for_each(|key| drop(limiter.check(&key)));
        assert!(limiter.stats().overflowed > 0, "there was room for all");
        clock.advance(Duration::from_secs(180));
        let fresh = (1 << 40)..(1 << 40) + 100_u64;
        denied += fresh.filter(|key| !limiter.check(key).is_allowed()).count();
    }
    assert_eq!(denied, 0, "of 30,000 new keys");
}

// A shard all of whose keys are dead is left without a table when it looks for room; the key for which
// it looked must get a new one. These secrets once made it panic, or deny.
#[test]
fn a_shard_that_is_swept_empty_takes_the_new_key() {
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

// Several keys together are looked at before they are taken from: who only looks must see past the
// dead as well, or nobody who always asks so is ever let in again.
#[test]
fn the_dead_keep_no_room_from_a_pair() {
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

// A check sweeps also when it does not go the short way: who asks less than once a window never does.
#[test]
fn the_dead_go_while_only_known_keys_ask_seldom() {
    let clock = ManualClock::new(Duration::from_secs(1_800_000_000));
    let policy = Policy::new("seldom", Quota::per_minute(3)).unwrap();
    let limiter = Limiter::builder(policy).clock(clock.clone()).shards(1).build().unwrap();
    (0..1000_u64).for_each(|key| drop(limiter.check(&key)));
    for _ in 0..100_000 {
        clock.advance(Duration::from_secs(61));
        assert!(limiter.check("known").is_allowed());
    }
    assert_eq!(limiter.stats().keys, 1);
}

// New keys sweep only when something may have expired: however keys came and changed, that must not
// keep expired ones in the table.
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
        // A thousand keys come in each window. Some algorithms remember two windows, and a pass of
        // the sweep takes a part of one.
        kept.extend((most > 2800).then_some((algorithm, most)));
    }
    assert_eq!(kept, [], "algorithms, and how many keys were in the table at most");
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

// A pair of keys of which one finds no room: the other gives back what it took, and the one that
// was in the way says so.
#[test]
fn a_full_table_denies_a_pair_whole() {
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
    assert_ne!(decisions[1].retry_after(), RetryAfter::Now, "it was in the way");
    assert!(!limiter.peek("new").is_allowed(), "peek decides as check would");
}

// What a flood took must come back once it is over, or one bad minute would cost for ever.
#[test]
fn memory_comes_back_after_everything_has_expired() {
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

// A state that is put on the heap without asking would pass the budget by a little for every key.
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

// The sketch counts in quanta of a limit. If a tier with a huge one opens it, a quantum of that
// tier must not be a quantum for everybody.
#[test]
fn a_tier_with_a_huge_limit_does_not_spoil_the_sketch_for_others() {
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

// Whoever waits must be told the same as whoever asks.
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

// A cost above the limit never passes, whether there is room in the table or not.
#[test]
fn a_full_table_still_says_never() {
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

// Long logs, not many keys, may fill the budget too: then they are merged, and nobody gets more.
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

/// With windows that have just begun, so that half a minute later they still run.
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

/// The share of fresh keys that are denied their first request.
fn denied_of_fresh(limiter: &Limiter, step: u64) -> f64 {
    let first = (1 << 40) + step * FRESH;
    let denied = (first..first + FRESH).filter(|key| !limiter.check(key).is_allowed()).count();
    f64::from(u32::try_from(denied).unwrap()) / 100_000.0
}

/// Bytes of this process in real memory.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// One test at a time, where they share a process: they measure its memory.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
