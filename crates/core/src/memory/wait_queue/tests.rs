//! The quotas that a queue keeps for its waiters.

use super::*;

// Quotas may come with a request, and the queue of a busy key may never be empty: the quotas of
// waiters that left must not accumulate, and the others must keep their own.
#[test]
fn quotas_are_kept_for_as_long_as_their_waiters() {
    let mut queue = WaitQueue::default();
    let mut expected = Vec::new();
    for id in 0..1000 {
        // Some quotas are shared, and others are not.
        let limit = if id % 2 == 0 { id % 14 } else { 1000 + id };
        let limits = Limits::of(&[(limit, 60_000)]);
        queue.push(id, &limits, Place { limits: 0, cost: 1, due: 0, tick: 0 });
        expected.push((id, limits));
        if expected.len() > 20 {
            let index = usize::try_from(id).unwrap() * 31 % expected.len();
            assert_eq!(queue.remove(index).unwrap().id, expected.remove(index).0);
        }
        let kept =
            queue.waiters.iter().map(|waiter| (waiter.id, queue.limits[waiter.place.limits]));
        assert_eq!(kept.collect::<Vec<_>>(), expected);
        assert!(queue.limits.len() <= expected.len(), "{} quotas", queue.limits.len());
    }
}
