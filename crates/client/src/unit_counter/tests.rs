//! Tests of `unit_counter`.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn the_last_of_many_waits_several_windows() {
    let count = UnitCounter::new(Quota::new(2, seconds(10)).unwrap()).unwrap();
    assert!(count.take(1, seconds(100)).is_some());
    assert!(count.take(1, seconds(103)).is_some());
    assert!(count.take(1, seconds(104)).is_none());
    let waits = [0, 1, 2, 3, 4, 5].map(|units| count.wait(units, seconds(104)).as_secs());
    assert_eq!(waits, [0, 6, 9, 16, 19, 26]);
}

#[test]
fn refunded_units_can_be_taken_again() {
    let count = UnitCounter::new(Quota::per_minute(3)).unwrap();
    let receipt = count.take(9, seconds(5)).unwrap();
    assert_eq!((receipt.units(), count.used(seconds(6))), (3, 3));
    count.give_back(receipt, seconds(7));
    assert_eq!(count.used(seconds(8)), 0);
}

#[test]
fn changing_the_quota_keeps_units() {
    let mut count = UnitCounter::new(Quota::per_minute(10)).unwrap();
    let _taken = count.take(6, seconds(1));
    count.change(Quota::per_minute(4));
    assert!(count.take(1, seconds(2)).is_none());
    assert_eq!(count.wait(1, seconds(2)), seconds(59));
    count.change(Quota::new(8, seconds(120)).unwrap());
    assert_eq!((count.used(seconds(3)), count.wait(1, seconds(3))), (6, Duration::ZERO));
    assert_eq!(count.wait(3, seconds(3)), seconds(118));
}
