//! Tests of the bounds and the order of lines.

use super::Lines;
use slidegate::ErrorKind;

#[test]
fn lines_are_bounded_per_key_and_in_total() {
    let lines = Lines::new(3, 2);
    let places = [lines.join(1, 5).unwrap(), lines.join(1, 7).unwrap()];
    assert_eq!(lines.join(1, 1).unwrap_err().kind(), ErrorKind::Waiters);
    let other = lines.join(2, 1).unwrap();
    assert!(lines.join(3, 1).unwrap_err().to_string().contains("raise waiters_max"));
    assert_eq!((lines.units(1), lines.waiters()), (Some(12), 3));
    drop((places, other));
    assert_eq!((lines.units(1), lines.waiters()), (None, 0));
    assert!(lines.state.lock().by_key.is_empty());
}

#[test]
fn only_one_caller_is_at_the_front() {
    let lines = Lines::new(3, 3);
    let (first, second) = (lines.join(1, 1).unwrap(), lines.join(1, 1).unwrap());
    let front = first.try_front().unwrap();
    assert!(second.try_front().is_none());
    drop(front);
    assert!(second.try_front().is_some());
}
