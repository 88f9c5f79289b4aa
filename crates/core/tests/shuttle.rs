//! All locks and atomics under a scheduler that tries rare orders of execution.
//!
//! `cargo xtask test` runs it with `--cfg shuttle`, with which the crate uses shuttle's locks.
#![cfg(shuttle)]

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use slidegate::{Ask, Cost, Decision, Limiter, ManualClock, OnFull, Policy, Quota, check_all};

const ROUNDS: usize = 400;

fn clock() -> ManualClock {
    ManualClock::new(Duration::from_secs(1_700_000_000))
}

fn limiter(limit: u32) -> Arc<Limiter> {
    let policy = Policy::new("shuttle", Quota::per_minute(limit)).unwrap();
    let builder = Limiter::builder(policy).clock(clock()).secret([7; 16]).shards(2);
    Arc::new(builder.build().unwrap())
}

fn count(decisions: &[Decision]) -> u64 {
    decisions.iter().filter(|decision| decision.is_allowed()).count() as u64
}

fn run(scenario: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(scenario, ROUNDS);
    shuttle::check_pct(scenario, ROUNDS, 3);
}

// Two threads that both see the last unit would admit one too many.
#[test]
fn one_key_admits_exactly_its_limit() {
    run(|| {
        let limiter = limiter(3);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let limiter = limiter.clone();
                thread::spawn(move || {
                    (0..2).filter(|_| limiter.check("key").is_allowed()).count() as u64
                })
            })
            .collect();
        let admitted: u64 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(admitted, 3);
    });
}

// A batch that locks several shards must neither miss units of single checks nor deadlock with
// another batch.
#[test]
fn batches_and_single_checks_share_one_limit() {
    run(|| {
        let limiter = limiter(3);
        let batch = |keys: [&'static str; 3]| {
            let limiter = limiter.clone();
            thread::spawn(move || {
                let mut decisions = Vec::new();
                limiter.check_many(&keys, Cost::ONE, &mut decisions);
                count(&decisions)
            })
        };
        let (one, two) = (batch(["a", "b", "a"]), batch(["b", "a", "b"]));
        let single = u64::from(limiter.check("a").is_allowed());
        let admitted = one.join().unwrap() + two.join().unwrap() + single;
        // a is checked four times, b three times.
        assert_eq!(admitted, 6);
        assert_eq!(limiter.usage("a").units(0), 3);
    });
}

// Two callers that name two limiters in opposite order must not deadlock, and none may be charged
// for half.
#[test]
fn all_or_nothing_takes_both_or_none() {
    run(|| {
        let (left, right) = (limiter(2), limiter(1));
        let ask = |turned: bool| {
            let (left, right) = (left.clone(), right.clone());
            thread::spawn(move || {
                let mut asks =
                    [Ask::new(&left, "key", Cost::ONE), Ask::new(&right, "key", Cost::ONE)];
                if turned {
                    asks.reverse();
                }
                count(&check_all(&asks).unwrap()) / 2
            })
        };
        let (one, two) = (ask(false), ask(true));
        assert_eq!(one.join().unwrap() + two.join().unwrap(), 1);
        assert_eq!(left.usage("key").units(0), 1);
        assert_eq!(right.usage("key").units(0), 1);
    });
}

// Refunded units may be taken again, but never more.
#[test]
fn refunds_free_exactly_their_units() {
    run(|| {
        let limiter = limiter(1);
        let receipt = limiter.check("key").into_receipt().unwrap();
        let checker = limiter.clone();
        let checks =
            thread::spawn(move || (0..2).filter(|_| checker.check("key").is_allowed()).count());
        let given = limiter.refund(receipt);
        assert_eq!(given, 1);
        let admitted = checks.join().unwrap();
        assert!(admitted <= 1);
        assert_eq!(limiter.usage("key").units(0), admitted as u64);
    });
}

// A key that is swept, evicted and restored while it is checked must not be forgotten.
#[test]
fn sweeping_and_evicting_forget_no_key() {
    run(|| {
        let policy = Policy::new("evict", Quota::per_minute(2)).unwrap();
        let limiter = Limiter::builder(policy)
            .clock(clock())
            .secret([7; 16])
            .shards(1)
            .memory_limit(64 * 1024)
            .on_full(OnFull::Lru)
            .build()
            .unwrap();
        let limiter = Arc::new(limiter);
        let first = u64::from(limiter.check("victim").is_allowed());
        // The table is full from here on: every new key evicts one.
        for number in 0..1000u64 {
            let _ = limiter.check(&number);
        }
        let flood = limiter.clone();
        let flood = thread::spawn(move || {
            for number in 2000..2040u64 {
                let _ = flood.check(&number);
            }
        });
        let sweeper = limiter.clone();
        let sweeper = thread::spawn(move || sweeper.sweep(64));
        let admitted = (0..3).filter(|_| limiter.check("victim").is_allowed()).count() as u64;
        flood.join().unwrap();
        assert_eq!(sweeper.join().unwrap(), 0);
        assert!(first + admitted <= 2, "{first} and {admitted} admitted");
        let stats = limiter.stats();
        assert!(stats.evictions > 0);
        assert!(stats.bytes <= stats.memory_limit);
    });
}

// Units that are refunded while an earlier caller gives up must reach the next waiter, not a check.
#[test]
fn cancelled_and_refunded_units_reach_the_queue() {
    run(|| {
        let limiter = limiter(1);
        let receipt = limiter.check("key").into_receipt().unwrap();
        let (mut first, mut second) = (wait(&limiter), wait(&limiter));
        assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
        let (refunder, checker) = (limiter.clone(), limiter.clone());
        let refund = thread::spawn(move || refunder.refund(receipt));
        let check = thread::spawn(move || checker.check("key").is_allowed());
        let cancel = thread::spawn(move || poll(&mut first).is_some());
        let served_early = poll(&mut second).is_some();
        assert_eq!(refund.join().unwrap(), 1);
        assert!(!check.join().unwrap(), "overtakes the queue");
        let first_was_served = cancel.join().unwrap();
        let served = served_early || poll(&mut second).is_some();
        assert!(first_was_served != served, "one unit, one caller");
        drop(second);
        assert_eq!((limiter.usage("key").units(0), limiter.stats().waiters), (1, 0));
    });
}

type Task = std::pin::Pin<Box<dyn Future<Output = Decision> + Send>>;

fn wait(limiter: &Arc<Limiter>) -> Task {
    let (limiter, deadline) = (limiter.clone(), Duration::from_secs(600));
    let sleep = |_| std::future::pending();
    Box::pin(async move { limiter.wait_timeout("key", Cost::ONE, deadline, sleep).await.unwrap() })
}

fn poll(task: &mut Task) -> Option<Decision> {
    match task.as_mut().poll(&mut std::task::Context::from_waker(std::task::Waker::noop())) {
        std::task::Poll::Ready(decision) => Some(decision),
        std::task::Poll::Pending => None,
    }
}

// A snapshot taken between two steps of other threads contains every key that existed before.
#[test]
fn a_snapshot_misses_no_key() {
    run(|| {
        let limiter = limiter(1);
        for key in ["a", "b", "c"] {
            let _ = limiter.check(key);
        }
        let other = limiter.clone();
        let writer = thread::spawn(move || {
            for number in 0..20u64 {
                let _ = other.check(&number);
            }
            other.reset(&3u64);
        });
        let mut file = Vec::new();
        limiter.save(&mut file).unwrap();
        writer.join().unwrap();
        let builder = Limiter::builder(limiter.policy().clone()).clock(clock()).shards(2);
        let (restored, _) = builder.restore(&mut file.as_slice()).unwrap();
        for key in ["a", "b", "c"] {
            assert!(!restored.check(key).is_allowed(), "{key} was forgotten");
        }
    });
}
