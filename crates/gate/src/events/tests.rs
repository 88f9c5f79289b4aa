//! Tests of `events`.

use slidegate::ManualClock;

use super::*;

#[test]
fn at_most_ten_events_per_second() {
    let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
    let events = TraceEvents::with_clock(Arc::new(clock.clone()));
    let emitted = || (0..1000).filter(|_| events.admit().is_some()).count();
    assert_eq!(emitted(), 10);
    clock.advance(Duration::from_nanos(999_999_999));
    assert_eq!(emitted(), 0);
    clock.advance(Duration::from_nanos(1));
    assert_eq!(events.admit(), Some(1990));
    assert_eq!(emitted(), 9);
    // A clock that goes back does not reopen an earlier second.
    clock.set(Duration::from_secs(1_700_000_000));
    assert_eq!(emitted(), 0);
}
