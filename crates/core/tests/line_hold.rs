//! How long a line holds the lock of its shard:
//! `cargo test --release -p slidegate --test line_hold -- --ignored --nocapture`

use std::future::{Future, pending};
use std::task::{Context, Waker};
use std::time::Duration;

use slidegate::{Cost, Limiter, ManualClock, Policy, Quota};

#[test]
#[ignore = "measures, and asserts nothing"]
fn the_longest_hold_of_a_full_line() {
    for limit in [1000, 10_000, 100_000, 1_000_000] {
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let policy =
            Policy::new("line", Quota::new(limit, Duration::from_secs(3600)).unwrap()).unwrap();
        let limiter = Limiter::builder(policy).clock(clock.clone()).build().unwrap();
        let mut receipts = Vec::new();
        for _ in 0..limit {
            clock.advance(Duration::from_nanos(3_600_000_000_000 / limit / 2));
            receipts.extend(limiter.check("key").into_receipt());
        }
        let before = limiter.stats().longest_hold;
        let deadline = Duration::from_secs(86_400);
        let wait = |_| Box::pin(limiter.wait_timeout("key", Cost::ONE, deadline, |_| pending()));
        let mut waits: Vec<_> = (0..1000).map(wait).collect();
        let mut context = Context::from_waker(Waker::noop());
        assert!(waits.iter_mut().all(|wait| wait.as_mut().poll(&mut context).is_pending()));
        for receipt in receipts.drain(..).take(500) {
            limiter.refund(receipt);
        }
        let hold = limiter.stats().longest_hold;
        println!("{limit} units and 1000 waiters: {hold:?} (before: {before:?})");
    }
}
