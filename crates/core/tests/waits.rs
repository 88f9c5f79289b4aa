//! Waiting in line, with time and polling in the test's hands.

#![expect(clippy::unwrap_used, reason = "in a test, to panic is to fail")]

use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use slidegate::{
    Algorithm, Clock, Cost, Decision, Error, ErrorKind, Limiter, ManualClock, Policy, Quota,
    RetryAfter,
};

/// Both algorithms that have a line.
const LINED: [Algorithm; 3] =
    [Algorithm::Log, Algorithm::LogCapped { bytes_max: 64 }, Algorithm::Gcra];

// A waiter that asks again when it wakes would be overtaken by whoever asks at that moment.
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
            assert!(!limiter.check("alice").is_allowed(), "{algorithm:?} let somebody overtake");
            // Those who came last are polled first: the order must not come from the polling.
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
fn a_wait_past_the_deadline_is_denied_at_once_and_takes_nothing() {
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

// However long the deadline: a cost above the limit would wait for ever.
#[test]
fn a_cost_above_the_limit_is_denied_at_once() {
    for algorithm in LINED {
        let (limiter, _) = limiter(3, algorithm);
        let wait = limiter.wait_timeout("alice", cost(4), Duration::MAX, never);
        let decision = now_or_never(wait).unwrap();
        assert!(!decision.is_allowed());
        assert_eq!(decision.retry_after(), RetryAfter::Never);
        assert_eq!(limiter.usage("alice").units(0), 0);
    }
}

// A place that outlives its future would deny everybody behind it for nothing.
#[test]
fn dropping_the_future_gives_the_place_back() {
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

// A future that was never polled has no place yet, and one that is done has none any more.
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

// What was waited for can be given back like what was taken at once, also after a late wake-up,
// which dates it anew.
#[test]
fn a_receipt_of_a_wait_gives_back_the_very_units() {
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

// Without a bound a flood of waiters would be a queue without end.
#[test]
fn one_waiter_too_many_is_an_error() {
    let policy = Policy::new("wait", Quota::per_minute(1)).unwrap();
    let clock = ManualClock::new(START);
    let limiter = Limiter::builder(policy).clock(clock.clone()).waiters_max(2).build().unwrap();
    assert!(limiter.check("alice").is_allowed());
    let mut waits: Vec<_> = (0..3).map(|_| task(&limiter, &clock, 1, SECONDS_600)).collect();
    assert!(waits[..2].iter_mut().all(|wait| poll(wait).is_none()));
    let error = poll(&mut waits[2]).unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Waiters);
    assert!(error.to_string().contains("2 callers wait already"), "{error}");
    assert_eq!(limiter.usage("alice").units(0), 3, "who was refused has no place");

    drop(waits.remove(0));
    let mut next = task(&limiter, &clock, 1, SECONDS_600);
    assert!(poll(&mut next).is_none(), "a place in line was free again");
}

// A future-dated unit in an algorithm that has none would be counted now or never.
#[test]
fn algorithms_without_a_line_say_so() {
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

// Whoever waits when a key is reset has no place any more: it must be told, not let through.
#[test]
fn a_reset_turns_waiters_away() {
    for algorithm in LINED {
        let (limiter, clock) = limiter(1, algorithm);
        assert!(limiter.check("alice").is_allowed());
        let mut wait = task(&limiter, &clock, 1, SECONDS_600);
        assert!(poll(&mut wait).is_none());
        assert!(limiter.reset("alice"));
        assert!(limiter.check("alice").is_allowed());
        clock.advance(Duration::from_secs(60));
        assert!(!poll(&mut wait).unwrap().unwrap().is_allowed(), "{algorithm:?}");
        assert_eq!(limiter.stats().waiters, 0);
    }
}

// A place behind one that is dated later than the free moment must not outlast the deadline.
#[test]
fn nobody_waits_past_the_deadline_behind_a_later_place() {
    let (limiter, clock) = limiter(10, Algorithm::Log);
    let _first = limiter.check_cost("alice", cost(5));
    clock.advance(Duration::from_secs(30));
    let second = limiter.check_cost("alice", cost(5)).into_receipt().unwrap();
    // Needs eight units: dated at 90 s, when the second five are free.
    let mut large = task(&limiter, &clock, 8, SECONDS_600);
    assert!(poll(&mut large).is_none());
    assert_eq!(limiter.refund(second), 5);
    // Two units are free in 30 s, but the line is dated 60 s from now. Told no at once, or served
    // within the 31 s: both would keep the promise.
    let mut small = task(&limiter, &clock, 2, Duration::from_secs(31));
    if let Some(decision) = poll(&mut small) {
        assert!(!decision.unwrap().is_allowed());
        return;
    }
    clock.advance(Duration::from_secs(31));
    assert!(poll(&mut small).is_some(), "sleeps on after its deadline");
}

// Who wakes more than a window late has a place that stopped counting: to use it all the same,
// unrecorded, lets twice the limit through.
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

// A stalled program wakes everybody at once: GCRA says that at most twice the limit passes in a
// window, the log that no more than the limit does.
#[test]
fn all_who_wake_late_together_stay_within_the_bound() {
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
fn what_is_dated_ahead_counts_for_who_lost_a_place() {
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
fn who_was_late_counts_for_those_behind() {
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
fn blocked_threads_are_served_a_window_apart() {
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
    let quota = Quota::new(limit, Duration::from_secs(60)).unwrap();
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
    let sleep = |asked| Sleep { clock, until: clock.now() + nanos(asked) };
    Box::pin(limiter.wait_timeout("alice", cost(units), deadline, sleep))
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
    match task.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => Some(result),
        Poll::Pending => None,
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
