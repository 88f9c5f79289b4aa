//! Keys that are denied for a time.
//!
//! What could go wrong: a block that forgets what the key used, a check that passes it, one that other
//! keys notice, one that a sweep, an eviction or a restart ends, blocks that take memory without bound.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slidegate::{
    Algorithm, Ask, Cost, Decision, ErrorKind, Limiter, LimiterBuilder, ManualClock, OnFull,
    Policy, Quota, RetryAfter, check_all,
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
const MINUTE: Duration = Duration::from_secs(60);

fn policy(algorithm: Algorithm, limit: u32) -> Policy {
    Policy::builder("api").quota(Quota::per_hour(limit)).algorithm(algorithm).build().unwrap()
}

fn builder(algorithm: Algorithm, limit: u32) -> (LimiterBuilder, ManualClock) {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    (Limiter::builder(policy(algorithm, limit)).clock(clock.clone()), clock)
}

// A random walk of two limiters: one blocks keys, the other does not. Where no block applies, both must
// give the same answers.
#[test]
fn blocks_change_nothing_but_the_denials() {
    for algorithm in ALGORITHMS {
        for seed in 0..40 {
            let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
            let build = || {
                let builder = Limiter::builder(policy(algorithm, 5)).clock(clock.clone());
                builder.shards(1).build().unwrap()
            };
            let (plain, mut blocking) = (build(), build());
            let mut random = Random::new(seed);
            let mut blocked = [Duration::ZERO; 8];
            let mut now = Duration::ZERO;
            for step in 0..300 {
                let key = below(&mut random, 8);
                let at = usize::try_from(key).unwrap();
                let is_blocked = blocked[at] > now;
                let what = format!("{algorithm:?}, seed {seed}, step {step}");
                match below(&mut random, 10) {
                    0 => {
                        let time = Duration::from_secs(1 + below(&mut random, 600));
                        blocking.block(&key, time).unwrap();
                        blocked[at] = now + time;
                    }
                    1 => {
                        assert_eq!(blocking.unblock(&key), is_blocked, "{what}");
                        blocked[at] = Duration::ZERO;
                    }
                    2 => {
                        let units = below(&mut random, 3);
                        assert_eq!(plain.charge(&key, units), blocking.charge(&key, units));
                    }
                    3 => assert_eq!(plain.forgive(&key, 1), blocking.forgive(&key, 1), "{what}"),
                    4 => {
                        now += Duration::from_secs(below(&mut random, 900));
                        clock.set(Duration::from_secs(1_700_000_000) + now);
                    }
                    5 => {
                        plain.sweep(usize::MAX);
                        blocking.sweep(usize::MAX);
                    }
                    6 if step % 3 == 0 => {
                        let mut snapshot = Vec::new();
                        blocking.save(&mut snapshot).unwrap();
                        let builder = Limiter::builder(policy(algorithm, 5)).clock(clock.clone());
                        let restored = builder.shards(1).restore(&mut snapshot.as_slice());
                        blocking = restored.unwrap().0;
                    }
                    _ if is_blocked => {
                        let left = RetryAfter::After(blocked[at].saturating_sub(now));
                        for decision in [blocking.check(&key), blocking.peek(&key)] {
                            assert!(!decision.is_allowed() && decision.is_blocked(), "{what}");
                            assert_eq!(decision.remaining(), 0);
                            let wait = plain.peek(&key).retry_after().max(left);
                            assert_eq!(decision.retry_after(), wait, "{what}");
                        }
                    }
                    _ => {
                        let (one, other) = (plain.check(&key), blocking.check(&key));
                        assert_eq!(one.quotas(), other.quotas(), "{what}");
                        assert!(!other.is_blocked(), "{what}");
                    }
                }
                let used = [&plain, &blocking].map(|limiter| limiter.usage(&key).units(0));
                assert_eq!(used[0], used[1], "{what}");
            }
        }
    }
}

#[test]
fn all_ways_to_take_units_are_blocked() {
    let (builder, _clock) = builder(Algorithm::Log, 10);
    let limiter = builder.build().unwrap();
    let gold = limiter.tier(&[Quota::per_hour(100)]).unwrap();
    let receipt = limiter.check_cost("k", Cost::new(2).unwrap()).into_receipt().unwrap();
    limiter.block("k", MINUTE).unwrap();
    assert!(limiter.check_at_most("k", Cost::new(5).unwrap()).is_blocked());
    assert!(limiter.with(&gold).unwrap().check("k").is_blocked());
    let mut decisions = Vec::new();
    limiter.check_many(&["free", "k", "free"], Cost::ONE, &mut decisions);
    let allowed: Vec<bool> = decisions.iter().map(Decision::is_allowed).collect();
    assert_eq!(allowed, [true, false, true]);
    let asks = [Ask::new(&limiter, "other", Cost::ONE), Ask::new(&limiter, "k", Cost::ONE)];
    assert!(!check_all(&asks).unwrap().iter().any(Decision::is_allowed));
    assert_eq!(limiter.usage("other").units(0), 0);
    assert_eq!(limiter.usage("k").units(0), 2);
    assert_eq!(limiter.history("k").unwrap().len(), 1);
    assert_eq!(limiter.refund(receipt), 2);
    assert!(limiter.reset("k") && limiter.check("k").is_allowed());
}

// A flood of keys must neither lift a block nor lose what the blocked key used.
#[test]
fn a_full_table_keeps_blocks_and_usage() {
    for on_full in [OnFull::Overflow, OnFull::Lru, OnFull::Deny] {
        let (builder, clock) = builder(Algorithm::Log, 3);
        let builder = builder.memory_limit(64 * 1024).on_full(on_full);
        let limiter = builder.build().unwrap();
        for _ in 0..3 {
            assert!(limiter.check("k").is_allowed());
        }
        limiter.block("k", MINUTE).unwrap();
        for key in 0..20_000_u32 {
            let _ = limiter.check(&key);
        }
        assert!(limiter.check("k").is_blocked(), "{on_full:?}");
        clock.advance(MINUTE + Duration::from_millis(1));
        let decision = limiter.check("k");
        assert!(!decision.is_allowed() && !decision.is_blocked(), "{on_full:?}");
    }
}

#[test]
fn blocks_are_bounded_and_expired_ones_make_room() {
    let (builder, clock) = builder(Algorithm::Log, 3);
    let limiter = builder.memory_limit(256 * 1024).build().unwrap();
    let fill = || (0..1_000_000_u32).find(|key| limiter.block(key, MINUTE).is_err());
    let most = fill().unwrap();
    let error = limiter.block(&most, MINUTE).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Memory, "{error}");
    let stats = limiter.stats();
    assert!(stats.blocked >= 100 && stats.bytes <= stats.memory_limit, "{stats:?}");
    assert!(!limiter.check(&0).is_allowed() && limiter.check(&most).is_allowed());
    clock.advance(2 * MINUTE);
    assert!(limiter.check(&0).is_allowed());
    assert!(fill().is_some_and(|again| again >= most / 2));
    clock.advance(2 * MINUTE);
    for _ in 0..100 {
        limiter.sweep(usize::MAX);
    }
    assert_eq!(limiter.stats().blocked, 0);
}

#[test]
fn waiters_of_a_blocked_key_are_denied() {
    let (builder, clock) = builder(Algorithm::Log, 1);
    let limiter = builder.build().unwrap();
    let sleep = |time| {
        clock.advance(time);
        std::future::ready(())
    };
    let two_hours = 120 * MINUTE;
    assert!(limiter.check("k").is_allowed());
    let mut waiting = pin!(limiter.wait_timeout("k", Cost::ONE, two_hours, |time| {
        // Blocked while it waits.
        limiter.block("k", 180 * MINUTE).unwrap();
        sleep(time)
    }));
    let poll = waiting.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let Poll::Ready(decision) = poll else { panic!("it still waits") };
    assert!(decision.unwrap().is_blocked());
    assert_eq!((limiter.stats().waiters, limiter.usage("k").units(0)), (0, 0));
    let denied = limiter.wait_timeout_blocking("k", Cost::ONE, two_hours).unwrap();
    assert!(denied.is_blocked());
    assert!(limiter.unblock("k") && limiter.check("k").is_allowed());
}

fn below(random: &mut Random, end: u64) -> u64 {
    random.between(0, end - 1)
}
