//! Tests of the bounds and the order of queues.

use super::WaitQueues;
use slidegate::ErrorKind;

#[test]
fn lines_are_bounded_per_key_and_in_total() {
    let queues = WaitQueues::new(3, 2);
    let places = [queues.join(1, 5).unwrap(), queues.join(1, 7).unwrap()];
    assert_eq!(queues.join(1, 1).unwrap_err().kind(), ErrorKind::Waiters);
    let other = queues.join(2, 1).unwrap();
    assert!(queues.join(3, 1).unwrap_err().to_string().contains("raise waiters_max"));
    assert_eq!((queues.units(1), queues.waiters()), (Some(12), 3));
    drop((places, other));
    assert_eq!((queues.units(1), queues.waiters()), (None, 0));
    assert!(queues.state.lock().by_key.is_empty());
}

#[test]
fn only_one_caller_is_at_the_front() {
    let queues = WaitQueues::new(3, 3);
    let (first, second) = (queues.join(1, 1).unwrap(), queues.join(1, 1).unwrap());
    let front = first.try_front().unwrap();
    assert!(second.try_front().is_none());
    drop(front);
    assert!(second.try_front().is_some());
}
