//! Several threads with one limiter: exactly the limit is allowed, and `check_all` is atomic.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use slidegate::{
    Algorithm, Ask, Cost, ErrorKind, Limiter, ManualClock, Mode, OnFull, Policy, Quota, RetryAfter,
    check_all,
};

const THREADS: u64 = 4;
const TRIALS: u64 = 5000;

const ALGORITHMS: [Algorithm; 6] = [
    Algorithm::Log,
    Algorithm::LogCapped { bytes_max: 64 },
    Algorithm::Counter,
    Algorithm::Segments { count: 6 },
    Algorithm::Gcra,
    Algorithm::Fixed,
];

// A check that reads and takes under two locks, or a key that two threads add at once, would admit
// one too many; a lost entry would admit one too few.
#[test]
fn threads_on_one_key_admit_exactly_the_limit() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(7, algorithm);
        let admitted = race(TRIALS, |trial, _| take(&limiter, trial, 3));
        assert_eq!(wrong(&admitted, 7), [], "{algorithm:?}");
    }
}

// The same where one mistake doubles the limit, and the new key itself is contended.
#[test]
fn a_limit_of_one_admits_one() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(1, algorithm);
        let admitted = race(2 * TRIALS, |trial, _| take(&limiter, trial, 1));
        assert_eq!(wrong(&admitted, 1), [], "{algorithm:?}");
    }
}

// Two quotas are decided together: a thread in between must not take from one of them only.
#[test]
fn two_quotas_are_taken_together() {
    for algorithm in ALGORITHMS {
        let quotas = [Quota::per_second(5), Quota::per_minute(6)];
        let policy = Policy::builder("two").quotas(quotas).algorithm(algorithm).build().unwrap();
        let limiter = still(policy);
        let admitted = race(TRIALS, |trial, _| take(&limiter, trial, 2));
        assert_eq!(wrong(&admitted, 5), [], "{algorithm:?}");
        for trial in 0..TRIALS {
            assert_eq!(limiter.usage(&trial).as_slice(), [5, 5], "{algorithm:?}");
        }
    }
}

// Units that are refunded while others take must be neither lost nor refunded twice.
#[test]
fn taken_minus_refunded_units_count() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(6, algorithm);
        let kept = race(TRIALS / 4, |trial, thread| {
            let mut kept = 0;
            for round in 0..8 {
                let receipt = limiter.check(&trial).into_receipt();
                match receipt {
                    Some(receipt) if round < 6 || thread % 2 == 0 => {
                        assert_eq!(limiter.refund(receipt), 1, "{algorithm:?}");
                    }
                    Some(_) => kept += 1,
                    None => {}
                }
            }
            kept
        });
        for (trial, kept) in (0_u64..).zip(kept) {
            assert_eq!(limiter.usage(&trial).units(0), kept, "{algorithm:?}, key {trial}");
        }
    }
}

// A batch holds several locks at once. A single check in between must see all of it or nothing, and
// two batches with the same keys in opposite order must not deadlock.
#[test]
fn batches_and_single_checks_are_exact_together() {
    let limiter = limiter(9, Algorithm::Log);
    let admitted = within(Duration::from_secs(60), move || {
        race(TRIALS / 4, |trial, thread| {
            let mut keys: Vec<u64> = (0..20).map(|key| trial * 100 + key % 10).collect();
            if thread % 2 == 0 {
                keys.reverse();
            }
            if thread < 2 {
                let mut decisions = Vec::new();
                (0..2)
                    .map(|_| {
                        limiter.check_many(&keys, Cost::ONE, &mut decisions);
                        assert_eq!(decisions.len(), keys.len());
                        count(decisions.iter().filter(|decision| decision.is_allowed()))
                    })
                    .sum()
            } else {
                let asks = keys.iter().chain(&keys);
                count(asks.filter(|key| limiter.check(*key).is_allowed()))
            }
        })
    });
    // Ten keys, each checked sixteen times with a limit of nine.
    assert_eq!(wrong(&admitted, 90), []);
}

// Taking from the first limiter and not from the second, or locking in the order of the call, would
// cause unequal sums or a deadlock.
#[test]
fn check_all_is_atomic_in_any_order() {
    let (left, right) = (limiter(40, Algorithm::Log), limiter(30, Algorithm::Gcra));
    let (taken, left, right) = within(Duration::from_secs(60), move || {
        let taken = race(TRIALS / 4, |trial, thread| {
            let pair = [Ask::new(&left, &trial, Cost::ONE), Ask::new(&right, &trial, Cost::ONE)];
            let turned = [pair[1], pair[0]];
            let asks = if thread % 2 == 0 { pair } else { turned };
            count((0..12).filter(|_| {
                let decisions = check_all(&asks).unwrap();
                let allowed = decisions.iter().filter(|decision| decision.is_allowed()).count();
                assert!(allowed == 0 || allowed == 2, "{decisions:?}");
                allowed == 2
            }))
        });
        (taken, left, right)
    });
    assert_eq!(wrong(&taken, 30), []);
    for trial in 0..TRIALS / 4 {
        assert_eq!(left.usage(&trial).units(0), 30, "key {trial}");
        assert_eq!(right.usage(&trial).units(0), 30, "key {trial}");
    }
}

// Single checks drain one side at the same time: a pair that finds it empty must not take from the
// other.
#[test]
fn check_all_is_atomic_under_contention() {
    let (left, right) = (limiter(25, Algorithm::Log), limiter(100, Algorithm::Log));
    // Units taken from the left alone, and a thousand times the units taken from both.
    let taken = race(TRIALS / 4, |trial, thread| {
        if thread < 2 {
            return take(&left, trial, 10);
        }
        let asks = [Ask::new(&right, &trial, Cost::ONE), Ask::new(&left, &trial, Cost::ONE)];
        1000 * count((0..10).filter(|_| check_all(&asks).unwrap()[0].is_allowed()))
    });
    for (trial, taken) in (0_u64..).zip(taken) {
        let (alone, both) = (taken % 1000, taken / 1000);
        assert_eq!(alone + both, 25, "key {trial}");
        assert_eq!(left.usage(&trial).units(0), 25, "key {trial}");
        assert_eq!(right.usage(&trial).units(0), both, "key {trial}");
    }
}

// One limiter, many keys in opposite orders: the shards are the locks here.
#[test]
fn check_all_within_one_limiter_does_not_deadlock() {
    let limiter = limiter(1000, Algorithm::Log);
    let taken = within(Duration::from_secs(60), move || {
        let taken = race(20, |_, thread| {
            let mut keys: Vec<u64> = (0..64).collect();
            if thread % 2 == 0 {
                keys.reverse();
            }
            let asks: Vec<_> = keys.iter().map(|key| Ask::new(&limiter, key, Cost::ONE)).collect();
            count((0..5).filter(|_| check_all(&asks).unwrap()[0].is_allowed()))
        });
        for key in 0..64_u64 {
            assert_eq!(limiter.usage(&key).units(0), 20 * 5 * THREADS, "key {key}");
        }
        taken
    });
    assert_eq!(taken.iter().sum::<u64>(), 20 * 5 * THREADS);
}

// Checked separately, three and three would each fit into five.
#[test]
fn a_key_named_twice_is_summed() {
    for algorithm in ALGORITHMS {
        let limiter = limiter(5, algorithm);
        let ask = |units| Ask::new(&limiter, "alice", Cost::new(units).unwrap());
        let decisions = check_all(&[ask(3), ask(3)]).unwrap();
        assert!(decisions.iter().all(|decision| !decision.is_allowed()), "{algorithm:?}");
        assert_eq!(limiter.usage("alice").units(0), 0, "{algorithm:?}");

        let decisions = check_all(&[ask(3), ask(2)]).unwrap();
        assert!(decisions.iter().all(slidegate::Decision::is_allowed), "{algorithm:?}");
        assert_eq!(decisions[1].remaining(), 0, "{algorithm:?}");
        assert_eq!(limiter.usage("alice").units(0), 5, "{algorithm:?}");
    }
}

// The decision that denied must be distinguishable from those that would have allowed.
#[test]
fn a_denial_charges_no_key_and_names_the_one_that_denied() {
    for algorithm in ALGORITHMS {
        let (wide, narrow) = (limiter(10, algorithm), limiter(1, algorithm));
        assert!(narrow.check("alice").is_allowed());
        let decisions = check_all(&[
            Ask::new(&wide, "192.0.2.1", Cost::ONE),
            Ask::new(&narrow, "alice", Cost::ONE),
            Ask::new(&narrow, "bob", Cost::ONE),
        ])
        .unwrap();
        assert!(decisions.iter().all(|decision| !decision.is_allowed()), "{algorithm:?}");
        let in_the_way: Vec<_> =
            decisions.iter().map(|decision| decision.retry_after() != RetryAfter::Now).collect();
        assert_eq!(in_the_way, [false, true, false], "{algorithm:?}");
        assert_eq!(wide.usage("192.0.2.1").units(0), 0, "{algorithm:?}");
        assert_eq!(narrow.usage("bob").units(0), 0, "{algorithm:?}");
        for decision in decisions {
            assert_eq!(decision.into_receipt(), None, "{algorithm:?}");
        }
    }
}

// A shadow policy must neither deny the others nor be charged for what the others deny.
#[test]
fn a_shadow_policy_never_denies_and_counts_like_enforcement() {
    let quota = Quota::per_minute(1);
    let shadow = still(Policy::builder("shadow").quota(quota).mode(Mode::Shadow).build().unwrap());
    let enforced = limiter(2, Algorithm::Log);
    let ask = || {
        let asks = [Ask::new(&shadow, "alice", Cost::ONE), Ask::new(&enforced, "alice", Cost::ONE)];
        let decisions = check_all(&asks).unwrap();
        let answers =
            decisions.iter().map(|decision| (decision.is_allowed(), decision.is_shadow_denied()));
        answers.collect::<Vec<_>>()
    };
    let used = || (shadow.usage("alice").units(0), enforced.usage("alice").units(0));

    assert_eq!((ask(), used()), (vec![(true, false), (true, false)], (1, 1)));
    assert_eq!((ask(), used()), (vec![(true, true), (true, false)], (1, 2)));
    assert_eq!((ask(), used()), (vec![(true, true), (false, false)], (1, 2)));
}

// The sum of the costs of a repeated key decides, in shadow mode too.
#[test]
fn a_shadow_policy_reports_repeated_keys_as_enforcement_would() {
    let quota = Quota::per_minute(5);
    for mode in [Mode::Enforce, Mode::Shadow] {
        let limiter = still(Policy::builder("repeated").quota(quota).mode(mode).build().unwrap());
        let decisions =
            check_all(&[Ask::new(&limiter, "alice", Cost::new(3).unwrap()); 2]).unwrap();
        for decision in decisions {
            assert_eq!(decision.is_allowed(), mode == Mode::Shadow);
            assert_eq!(decision.is_shadow_denied(), mode == Mode::Shadow);
        }
        assert_eq!(limiter.usage("alice").units(0), 0);
    }
}

// A table that has room for one of two keys denies the other only when it is taken.
#[test]
fn a_shadow_policy_with_a_full_table_denies_no_other() {
    let quota = Quota::per_minute(5);
    let policy = Policy::builder("shadow").quota(quota).mode(Mode::Shadow).build().unwrap();
    let builder = Limiter::builder(policy).memory_limit(1 << 16).shards(1);
    let shadow = builder.on_full(OnFull::Deny).build().unwrap();
    let enforced = limiter(1_000_000, Algorithm::Log);
    for pair in 0..20_000_u64 {
        let asks = [
            Ask::new(&shadow, &(2 * pair), Cost::ONE),
            Ask::new(&shadow, &(2 * pair + 1), Cost::ONE),
            Ask::new(&enforced, "alice", Cost::ONE),
        ];
        let decisions = check_all(&asks).unwrap();
        assert!(decisions.iter().all(slidegate::Decision::is_allowed), "pair {pair}");
    }
    assert!(shadow.stats().overflowed > 0, "all keys fit");
}

// Every check may hold a lock: without a bound, one call could hold all of them.
#[test]
fn rejects_more_than_64_checks() {
    let limiter = limiter(100, Algorithm::Log);
    let asks = [Ask::new(&limiter, "alice", Cost::ONE); 65];
    assert!(check_all(&asks[..64]).unwrap()[63].is_allowed());
    let error = check_all(&asks).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Setting);
    assert_eq!(limiter.usage("alice").units(0), 64);
    assert!(check_all(&[]).unwrap().is_empty());
}

/// Returns a limiter whose clock is stopped in the middle of a window, so that nothing expires.
fn limiter(limit: u64, algorithm: Algorithm) -> Limiter {
    let quota = Quota::new(limit, Duration::from_secs(60)).unwrap();
    still(Policy::builder("race").quota(quota).algorithm(algorithm).build().unwrap())
}

fn still(policy: Policy) -> Limiter {
    let clock = ManualClock::new(Duration::from_millis(1_700_000_030_500));
    Limiter::builder(policy).clock(clock).build().unwrap()
}

/// Starts every trial on all threads together. Returns the sums of their results, by trial.
fn race(trials: u64, run: impl Fn(u64, u64) -> u64 + Sync) -> Vec<u64> {
    let arrived = AtomicU64::new(0);
    let sums: Vec<AtomicU64> = (0..trials).map(|_| AtomicU64::new(0)).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (arrived, sums, run) = (&arrived, &sums, &run);
            scope.spawn(move || {
                let _leaving = Leaving(arrived);
                for (trial, sum) in (0..).zip(sums) {
                    // A `Barrier` wakes its threads one by one, and the trial of the first would be
                    // over before the second starts.
                    arrived.fetch_add(1, Ordering::Relaxed);
                    while arrived.load(Ordering::Relaxed) < (trial + 1) * THREADS {
                        thread::yield_now();
                    }
                    sum.fetch_add(run(trial, thread), Ordering::Relaxed);
                }
            });
        }
    });
    sums.into_iter().map(AtomicU64::into_inner).collect()
}

/// Lets the other threads continue when one panics, so that the test fails instead of hanging.
struct Leaving<'a>(&'a AtomicU64);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.store(u64::MAX / 2, Ordering::Relaxed);
        }
    }
}

/// Fails instead of hanging if `run` does not end in time.
fn within<R: Send + 'static>(time: Duration, run: impl FnOnce() -> R + Send + 'static) -> R {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(run()));
    receiver
        .recv_timeout(time)
        .expect("ends in time and without a panic: otherwise the threads are deadlocked")
}

fn take(limiter: &Limiter, key: u64, times: u64) -> u64 {
    count((0..times).filter(|_| limiter.check(&key).is_allowed()))
}

fn count(items: impl Iterator) -> u64 {
    u64::try_from(items.count()).unwrap()
}

/// Returns the trials with a wrong result, with that result.
fn wrong(sums: &[u64], expected: u64) -> Vec<(usize, u64)> {
    sums.iter().copied().enumerate().filter(|(_, sum)| *sum != expected).collect()
}
