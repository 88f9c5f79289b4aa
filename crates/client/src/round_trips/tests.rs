//! Tests of `round_trips`.

use super::*;

#[test]
fn outliers_count_immediately_and_fade() {
    let millis = Duration::from_millis;
    let mut trips = RoundTrips::default();
    assert_eq!(trips.spread(), Duration::ZERO);
    trips.note(millis(20));
    assert_eq!(trips.spread(), Duration::ZERO);
    trips.note(millis(220));
    assert_eq!(trips.spread() + millis(20) / FORGET, millis(200));
    for _ in 0..400 {
        trips.note(millis(20));
    }
    assert!(trips.spread() < millis(2), "{:?}", trips.spread());
    trips.note(Duration::MAX);
    assert!(trips.spread() > millis(1000));
}
