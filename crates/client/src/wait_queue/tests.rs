//! Tests of `wait_queue`.

use super::*;

#[test]
fn tickets_are_ordered_by_number() {
    let mut line = WaitQueue::default();
    let now = Duration::from_secs(10);
    for number in [3, 1, 2] {
        line.put(number, now);
    }
    assert_eq!([1, 2, 3, 4].map(|number| line.before(number, now)), [0, 1, 2, 3]);
    assert!(line.remove(2));
    assert!(!line.remove(7));
    assert_eq!(line.before(3, now), 1);
    assert!(line.remove(1));
    assert!(!line.remove(3));
    assert!(line.is_empty());
}

#[test]
fn overdue_ticket_blocks_no_other() {
    let mut line = WaitQueue::default();
    line.put(1, Duration::from_secs(10));
    assert_eq!(line.before(2, Duration::from_secs(11)), 1);
    assert_eq!(line.before(2, Duration::from_millis(11_001)), 0);
    line.put(1, Duration::from_secs(12));
    assert_eq!(line.before(2, Duration::from_millis(11_001)), 1);
}
