//! Waiting in order, with time and polling controlled by the test.

#![expect(clippy::unwrap_used, reason = "a panic fails the test")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use slidegate::{
    Algorithm, Clock, Cost, Decision, Error, ErrorKind, Limiter, ManualClock, OnFull, Policy,
    Quota, RetryAfter,
};

/// The algorithms that support waiting.
const LINED: [Algorithm; 3] =
    [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }, Algorithm::Gcra];

// A waiter that checks again when it wakes would be overtaken by a check at that moment.
#[test]
fn first_come_first_served() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(2, algorithm);
        assert!(limiter.check_cost("alice", cost(2)).is_allowed());
        let mut first = task(&limiter, &clock, 2, SECONDS_600);
        let mut second = task(&limiter, &clock, 1, SECONDS_600);
        let mut third = task(&limiter, &clock, 1, SECONDS_600);
        assert!(poll(&mut first).is_none() && poll(&mut second).is_none());
        assert!(poll(&mut third).is_none());
        let mut served = [None; 3];
        for second_passed in 0..240 {
            assert!(!limiter.check("alice").is_allowed(), "{algorithm:?} was overtaken");
            // The last waiters are polled first: the order must not depend on polling.
            for (place, task) in [(2, &mut third), (1, &mut second), (0, &mut first)] {
                if served[place].is_none() && poll(task).is_some_and(|d| d.unwrap().is_allowed()) {
                    served[place] = Some(second_passed);
                }
            }
            if served.iter().all(Option::is_some) {
                break;
            }
            clock.advance(Duration::from_secs(1));
        }
        let expected = match algorithm {
            Algorithm::Gcra => [Some(60), Some(90), Some(120)],
            _ => [Some(60), Some(120), Some(120)],
        };
        assert_eq!(served, expected, "{algorithm:?}");
    }
}

// Sleeping first and denying at the deadline would hold the caller for nothing.
#[test]
fn a_wait_past_the_deadline_is_denied_immediately() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(1, algorithm);
        assert!(limiter.check("alice").is_allowed());
        let before = limiter.usage("alice");
        for deadline in [0, 1, 59_999] {
            let wait =
                limiter.wait_timeout("alice", cost(1), Duration::from_millis(deadline), never);
            let decision = now_or_never(wait).unwrap();
            assert!(!decision.is_allowed(), "{algorithm:?}");
            assert_eq!(
                decision.retry_after(),
                RetryAfter::After(Duration::from_secs(60)),
                "{algorithm:?}"
            );
        }
        assert_eq!(limiter.usage("alice"), before);
        let mut wait = task(&limiter, &clock, 1, Duration::from_secs(60));
        assert!(poll(&mut wait).is_none(), "{algorithm:?}: a millisecond more is enough");
        let free = limiter.wait_timeout("bob", cost(1), Duration::ZERO, never);
        assert!(now_or_never(free).unwrap().is_allowed(), "{algorithm:?}: nothing to wait for");
    }
}

// With any deadline, a cost above the limit would wait forever.
#[test]
fn a_cost_above_the_limit_is_denied_immediately() {
    for algorithm in LINED {
        let (limiter, _) = limiter(3, algorithm);
        let wait = limiter.wait_timeout("alice", cost(4), Duration::MAX, never);
        let decision = now_or_never(wait).unwrap();
        assert!(!decision.is_allowed());
        assert_eq!(decision.retry_after(), RetryAfter::Never);
        assert_eq!(limiter.usage("alice").units(0), 0);
    }
}

// A place that outlives its future would delay all later waiters for nothing.
#[test]
fn dropping_the_future_frees_the_place() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(2, algorithm);
        assert!(limiter.check_cost("alice", cost(2)).is_allowed());
        let before = limiter.usage("alice");
        let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        assert_eq!(limiter.stats().waiters, 3);
        assert_eq!(limiter.usage("alice").units(0), 5, "{algorithm:?}");

        drop(waits.remove(1));
        assert_eq!(limiter.stats().waiters, 2);
        assert_eq!(limiter.usage("alice").units(0), 4, "{algorithm:?}");
        drop(waits);
        assert_eq!(limiter.stats().waiters, 0);
        assert_eq!(limiter.usage("alice"), before, "{algorithm:?}");
        clock.advance(Duration::from_secs(60));
        assert!(limiter.check_cost("alice", cost(2)).is_allowed(), "{algorithm:?}");
    }
}

// A future that was never polled has no place yet, and a completed one has none any more.
#[test]
fn dropping_before_the_first_poll_or_after_the_last_changes_nothing() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(1, algorithm);
        drop(task(&limiter, &clock, 1, SECONDS_600));
        assert_eq!(limiter.usage("alice").units(0), 0);

        assert!(limiter.check("alice").is_allowed());
        let mut wait = task(&limiter, &clock, 1, SECONDS_600);
        assert!(poll(&mut wait).is_none());
        clock.advance(Duration::from_secs(60));
        assert!(poll(&mut wait).unwrap().unwrap().is_allowed());
        drop(wait);
        assert_eq!(limiter.usage("alice").units(0), 1, "{algorithm:?}");
        assert!(!limiter.check("alice").is_allowed(), "{algorithm:?}");
    }
}

// Units of a wait can be refunded like those of a check, also after a late wake-up, which records
// them at a new tick.
#[test]
fn a_receipt_of_a_wait_refunds_its_units() {
    for late in [0, 7] {
        for algorithm in LINED {
            let (limiter, clock) = limiter(4, algorithm);
            assert!(limiter.check_cost("alice", cost(4)).is_allowed());
            let mut wait = task(&limiter, &clock, 3, SECONDS_600);
            assert!(poll(&mut wait).is_none());
            clock.advance(Duration::from_secs(60 + late));
            let receipt = poll(&mut wait).unwrap().unwrap().into_receipt().unwrap();
            assert_eq!(receipt.units(), 3);
            assert_eq!(limiter.refund(receipt), 3, "{algorithm:?}, {late} s late");
            assert_eq!(limiter.usage("alice").units(0), 0, "{algorithm:?}, {late} s late");
        }
    }
}

// Without a bound, a flood of waiters would be an unbounded queue.
#[test]
fn one_waiter_too_many_is_an_error() {
    let clock = ManualClock::new(START);
    let limiter = bounded(&clock, 2, 1000);
    assert!(limiter.check("alice").is_allowed());
    let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    assert!(waits[..2].iter_mut().all(|wait| poll(wait).is_none()));
    let error = poll(&mut waits[2]).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Waiters);
    assert!(error.to_string().contains("2 callers wait already"), "{error}");
    assert_eq!(limiter.usage("alice").units(0), 3, "a refused caller has no place");

    drop(waits.remove(0));
    let mut next = task(&limiter, &clock, 1, SECONDS_600);
    assert!(poll(&mut next).is_none(), "a place in the queue was free again");
}

// One key with many waiters would use up the places of all others, and hold its lock for long.
#[test]
fn one_waiter_too_many_for_a_key_is_an_error() {
    let clock = ManualClock::new(START);
    let limiter = bounded(&clock, 3, 2);
    for key in ["alice", "bob"] {
        assert!(limiter.check(key).is_allowed());
    }
    let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    assert!(waits[..2].iter_mut().all(|wait| poll(wait).is_none()));
    let error = poll(&mut waits[2]).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Waiters);
    assert!(error.to_string().contains("2 callers wait for this key already"), "{error}");
    let mut other = task_for(&limiter, &clock, "bob", 1, SECONDS_600);
    assert!(poll(&mut other).is_none(), "another key has a separate queue");
    assert_eq!(limiter.stats().waiters, 3);
}

// A caller that need not wait must not be refused because others wait.
#[test]
fn a_full_queue_allows_callers_that_need_not_wait() {
    let clock = ManualClock::new(START);
    let limiter = bounded(&clock, 1, 1000);
    assert!(limiter.check("alice").is_allowed());
    let mut wait = task(&limiter, &clock, 1, SECONDS_600);
    assert!(poll(&mut wait).is_none());
    let free = limiter.wait_timeout("bob", cost(1), SECONDS_600, never);
    assert!(now_or_never(free).unwrap().is_allowed());
    let too_long = limiter.wait_timeout("alice", cost(1), Duration::from_secs(1), never);
    assert!(!now_or_never(too_long).unwrap().is_allowed(), "denied, not refused");
    assert_eq!(limiter.stats().waiters, 1);
}

// Ten per second: if the 90 in front give up, the last ten come next.
#[test]
fn cancelled_waits_move_the_queue_up() {
    for algorithm in LINED {
        let quota = Quota::per_second(10);
        let (limiter, clock) = limiter_of(quota, algorithm);
        assert!(limiter.check_cost("alice", cost(10)).is_allowed());
        let mut waits: Vec<_> = (0..100).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        clock.advance(Duration::from_millis(100));
        drop(waits.drain(..90));
        let at_most = Duration::from_millis(1900);
        let retry_after = limiter.peek("alice").retry_after().duration().unwrap();
        assert!(retry_after <= at_most, "{algorithm:?}: {retry_after:?} with ten in the queue");
        if algorithm == Algorithm::Log {
            assert_eq!(retry_after, at_most);
            clock.set(START + Duration::from_millis(999));
            assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        }
        clock.set(START + Duration::from_secs(1));
        assert!(!limiter.check("alice").is_allowed(), "{algorithm:?}: overtakes the queue");
        assert!(waits.iter_mut().all(is_served), "{algorithm:?}");
        let retry_after = limiter.peek("alice").retry_after().duration().unwrap();
        assert!(retry_after <= Duration::from_secs(1), "{algorithm:?}: {retry_after:?}");
    }
}

// A token budget: the estimate was far too high, and the rest of it is the next caller's.
#[test]
fn settled_units_reach_the_queue_before_any_check() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(1000, algorithm);
        let receipt = limiter.reserve("alice", 1000).into_receipt().unwrap();
        let mut wait = task(&limiter, &clock, 800, SECONDS_600);
        let woken = Arc::new(Flag::default());
        assert!(poll_with(&mut wait, &Waker::from(Arc::clone(&woken))).is_none());
        clock.advance(Duration::from_millis(500));
        limiter.settle(receipt, 10);
        assert!(woken.0.load(Ordering::Relaxed), "{algorithm:?}: not woken");
        assert!(!limiter.check_cost("alice", cost(800)).is_allowed(), "{algorithm:?}: overtakes");
        assert!(is_served(&mut wait), "{algorithm:?}: sleeps on");
    }
}

// Both run foreign code, which may use the limiter: under the lock that would never end.
#[test]
fn wakers_run_and_are_dropped_outside_of_the_lock() {
    struct ReentrantWaker(Arc<Limiter>);
    impl Wake for ReentrantWaker {
        fn wake(self: Arc<Self>) {
            self.0.usage("alice");
        }
    }
    impl Drop for ReentrantWaker {
        fn drop(&mut self) {
            self.0.usage("alice");
        }
    }
    let (limiter, clock) = limiter(1, Algorithm::Log);
    let limiter = Arc::new(limiter);
    let waker = || Waker::from(Arc::new(ReentrantWaker(Arc::clone(&limiter))));
    let receipt = limiter.check("alice").into_receipt().unwrap();
    let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    for _ in 0..2 {
        assert!(waits.iter_mut().all(|wait| poll_with(wait, &waker()).is_none()));
    }
    limiter.refund(receipt);
    assert!(poll_with(&mut waits[0], &waker()).is_some());
    drop(waits);
}

// What a restart ends is not used, so it must not be charged.
#[test]
fn a_snapshot_leaves_waiters_out() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(2, algorithm);
        assert!(limiter.check_cost("alice", cost(2)).is_allowed());
        let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        let mut file = Vec::new();
        limiter.save(&mut file).unwrap();
        assert_eq!(limiter.usage("alice").units(0), 5, "{algorithm:?}: the queue stays");
        let builder = Limiter::builder(limiter.policy().clone()).clock(clock.clone());
        let (restored, _) = builder.restore(&mut file.as_slice()).unwrap();
        assert_eq!(restored.usage("alice").units(0), 2, "{algorithm:?}");
    }
}

// A key that is moved into the sketch loses the dates of its units, and so its line.
#[test]
fn a_key_with_waiters_is_not_evicted() {
    let policy = Policy::new("wait", Quota::per_minute(1)).unwrap();
    let clock = ManualClock::new(START);
    let builder = Limiter::builder(policy).clock(clock.clone()).memory_limit(64 << 10);
    let limiter = builder.on_full(OnFull::Lru).shards(1).build().unwrap();
    assert!(limiter.check("alice").is_allowed());
    let mut waits: Vec<_> = (0..2).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
    clock.advance(Duration::from_secs(1));
    for key in 0..5000u32 {
        let _ = limiter.check(&key.to_le_bytes());
    }
    assert!(limiter.stats().evictions > 1000);
    assert_eq!(limiter.usage("alice").units(0), 3);
    clock.advance(Duration::from_secs(59));
    assert!(is_served(&mut waits[0]) && poll(&mut waits[1]).is_none());
}

// A thread that slept through it would wait for an hour.
#[test]
fn a_blocked_thread_is_woken_when_units_come_back() {
    let policy = Policy::new("wait", Quota::per_hour(1)).unwrap();
    let limiter = Limiter::new(policy).unwrap();
    let receipt = limiter.check("alice").into_receipt().unwrap();
    let hours = Duration::from_secs(7200);
    std::thread::scope(|scope| {
        let wait =
            scope.spawn(|| limiter.wait_timeout_blocking("alice", Cost::ONE, hours).unwrap());
        while limiter.stats().waiters == 0 {
            std::thread::yield_now();
        }
        assert_eq!(limiter.refund(receipt), 1);
        assert!(wait.join().unwrap().is_allowed());
    });
}

// A future-dated unit in an algorithm that has none would be counted now or never.
#[test]
fn unsupported_algorithms_return_an_error() {
    for algorithm in [Algorithm::Counter, Algorithm::Segments { count: 6 }, Algorithm::Fixed] {
        let (limiter, _) = limiter(1, algorithm);
        let wait = limiter.wait_timeout("alice", cost(1), SECONDS_600, never);
        let error = now_or_never(wait).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        let error = limiter.wait_timeout_blocking("alice", cost(1), SECONDS_600).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert_eq!((limiter.stats().waiters, limiter.usage("alice").units(0)), (0, 0));
    }
}

// After a reset the key has all its units again, and the waiters come first.
#[test]
fn a_reset_serves_the_waiters_in_order() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(2, algorithm);
        assert!(limiter.check_cost("alice", cost(2)).is_allowed());
        let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        clock.advance(Duration::from_secs(1));
        assert!(limiter.reset("alice"));
        assert!(!limiter.check("alice").is_allowed(), "{algorithm:?}: overtakes the queue");
        let served: Vec<bool> = waits.iter_mut().map(is_served).collect();
        assert_eq!(served, [true, true, false], "{algorithm:?}");
        assert_eq!(limiter.usage("alice").units(0), 3, "{algorithm:?}");
        drop(waits);
        assert_eq!(limiter.stats().waiters, 0);
    }
}

// A place behind one that is dated later than the free moment must not outlast the deadline.
#[test]
fn no_caller_waits_past_the_deadline_behind_a_later_place() {
    let (limiter, clock) = limiter(10, Algorithm::Log);
    let _first = limiter.check_cost("alice", cost(5));
    clock.advance(Duration::from_secs(30));
    let second = limiter.check_cost("alice", cost(5)).into_receipt().unwrap();
    // Needs eight units: dated at 90 s, when the second five are free.
    let mut large = task(&limiter, &clock, 8, SECONDS_600);
    assert!(poll(&mut large).is_none());
    assert_eq!(limiter.refund(second), 5);
    // Two units are free in 30 s, but the place ahead is dated 60 s from now. Both an immediate denial
    // and a grant within the 31 s are correct.
    let mut small = task(&limiter, &clock, 2, Duration::from_secs(31));
    if let Some(decision) = poll(&mut small) {
        assert!(!decision.unwrap().is_allowed());
        return;
    }
    clock.advance(Duration::from_secs(31));
    assert!(poll(&mut small).is_some(), "sleeps on after its deadline");
}

// The place of a waiter that wakes more than a window late no longer counts. Using it without
// recording it would allow twice the limit.
#[test]
fn a_place_that_has_expired_is_not_used_for_free() {
    for algorithm in [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }] {
        let (limiter, clock) = limiter(1, algorithm);
        assert!(limiter.check("alice").is_allowed());
        let mut wait = task(&limiter, &clock, 1, SECONDS_600);
        assert!(poll(&mut wait).is_none());
        clock.advance(Duration::from_secs(121));
        let waited = poll(&mut wait).is_some_and(|decision| decision.unwrap().is_allowed());
        let checked = limiter.check("alice").is_allowed();
        assert!(!(waited && checked), "{algorithm:?}: two at one moment under a limit of one");
    }
}

// A stalled program wakes all waiters at once: GCRA allows at most twice the limit in a window, the
// log at most the limit.
#[test]
fn waiters_that_wake_late_together_stay_within_the_bound() {
    for (algorithm, bound) in [(Algorithm::Log, 1), (Algorithm::Gcra, 2)] {
        let (limiter, clock) = limiter(1, algorithm);
        assert!(limiter.check("alice").is_allowed());
        let mut waits: Vec<_> = (0..9).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
        assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
        clock.advance(SECONDS_600);
        let passed = waits.iter_mut().filter_map(poll).filter(|d| d.as_ref().unwrap().is_allowed());
        let passed = passed.count();
        assert!(passed <= bound, "{algorithm:?}: {passed} at one moment under a limit of one");
    }
}

// A check behind a later place is dated as late as that place, but used at once: who comes back for
// a place that has expired must count it.
#[test]
fn units_in_the_future_count_for_a_waiter_that_lost_its_place() {
    let (limiter, clock) = limiter(2, Algorithm::Log);
    let at = |seconds| clock.set(START + Duration::from_secs(seconds));
    assert!(limiter.check_cost("alice", cost(2)).is_allowed());
    let mut late = task(&limiter, &clock, 2, SECONDS_600);
    assert!(poll(&mut late).is_none(), "dated 60 s, and asleep until 122 s");
    at(121);
    let receipt = limiter.check_cost("alice", cost(2)).into_receipt().unwrap();
    let mut next = task(&limiter, &clock, 1, SECONDS_600);
    assert!(poll(&mut next).is_none(), "dated 181 s");
    assert_eq!(limiter.refund(receipt), 2);
    at(122);
    assert!(limiter.check("alice").is_allowed(), "one is free, though dated 181 s");
    let passed = poll(&mut late).is_some_and(|decision| decision.unwrap().is_allowed());
    assert!(!passed, "three units at one moment under a limit of two");
}

// Places that were used late are dated later than those that came behind them, and count.
#[test]
fn late_waiters_count_for_later_ones() {
    let (limiter, clock) = limiter(2, Algorithm::Log);
    let at = |seconds| clock.set(START + Duration::from_secs(seconds));
    assert!(limiter.check("alice").is_allowed());
    at(10);
    assert!(limiter.check("alice").is_allowed());
    // Dated 60, 70, 120 and 130 s.
    let mut waits: Vec<_> = (0..4).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    assert!(waits.iter_mut().all(|wait| poll(wait).is_none()));
    let mut used = Vec::new();
    for (place, wakes_at) in [(0, 60), (1, 125), (2, 135), (3, 135)] {
        at(wakes_at);
        if poll(&mut waits[place]).is_some_and(|decision| decision.unwrap().is_allowed()) {
            used.push((wakes_at, 1));
        }
    }
    assert_eq!(slidegate_testkit::never_over(&used, 2, 60), None, "{used:?}");
}

// Real threads and the real clock: four who wait for one unit in 20 ms need three windows.
#[test]
fn blocked_threads_are_served_one_window_after_another() {
    let window = Duration::from_millis(20);
    let policy = Policy::new("wait", Quota::new(1, window).unwrap()).unwrap();
    let limiter = Limiter::new(policy).unwrap();
    let clock = slidegate::MonotonicClock::precise();
    let start = clock.now();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let decision =
                    limiter.wait_timeout_blocking("alice", Cost::ONE, SECONDS_600).unwrap();
                assert!(decision.is_allowed());
            });
        }
    });
    let took = Duration::from_nanos(clock.now() - start);
    assert!(took >= 3 * window, "all four passed within {took:?}");
    assert_eq!(limiter.stats().waiters, 0);
}

const START: Duration = Duration::from_secs(1_700_000_000);
const SECONDS_600: Duration = Duration::from_secs(600);

fn limiter(limit: u64, algorithm: Algorithm) -> (Limiter, ManualClock) {
    limiter_of(Quota::new(limit, Duration::from_secs(60)).unwrap(), algorithm)
}

/// One unit per minute.
fn bounded(clock: &ManualClock, waiters_max: usize, per_key_max: usize) -> Limiter {
    let policy = Policy::new("wait", Quota::per_minute(1)).unwrap();
    let builder = Limiter::builder(policy).clock(clock.clone()).waiters_max(waiters_max);
    builder.waiters_per_key_max(per_key_max).build().unwrap()
}

fn limiter_of(quota: Quota, algorithm: Algorithm) -> (Limiter, ManualClock) {
    let policy = Policy::builder("wait").quota(quota).algorithm(algorithm).build().unwrap();
    let clock = ManualClock::new(START);
    (Limiter::builder(policy).clock(clock.clone()).build().unwrap(), clock)
}

fn cost(units: u64) -> Cost {
    Cost::new(units).unwrap()
}

type Task<'a> = Pin<Box<dyn Future<Output = Result<Decision, Error>> + 'a>>;

/// A wait for `alice` that wakes as soon as the clock shows the time it asked for.
fn task<'a>(
    limiter: &'a Limiter,
    clock: &'a ManualClock,
    units: u64,
    deadline: Duration,
) -> Task<'a> {
    task_for(limiter, clock, "alice", units, deadline)
}

fn task_for<'a>(
    limiter: &'a Limiter,
    clock: &'a ManualClock,
    key: &'a str,
    units: u64,
    deadline: Duration,
) -> Task<'a> {
    let sleep = |asked| Sleep { clock, until: clock.now() + nanos(asked) };
    Box::pin(limiter.wait_timeout(key, cost(units), deadline, sleep))
}

struct Sleep<'a> {
    clock: &'a ManualClock,
    until: u64,
}

impl Future for Sleep<'_> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.clock.now() >= self.until { Poll::Ready(()) } else { Poll::Pending }
    }
}

fn poll(task: &mut Task<'_>) -> Option<Result<Decision, Error>> {
    poll_with(task, Waker::noop())
}

fn poll_with(task: &mut Task<'_>, waker: &Waker) -> Option<Result<Decision, Error>> {
    match task.as_mut().poll(&mut Context::from_waker(waker)) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
    }
}

fn is_served(task: &mut Task<'_>) -> bool {
    poll(task).is_some_and(|decision| decision.unwrap().is_allowed())
}

#[derive(Default)]
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// What a future answers when first polled; it must not need a second time.
fn now_or_never<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("the future waits"),
    }
}

/// A sleep that must not be asked for.
fn never(asked: Duration) -> std::future::Ready<()> {
    unreachable!("asked to sleep for {asked:?}")
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap()
}
