//! Tests of `violation`.

use super::*;

#[test]
fn units_of_one_instant_count_together_in_any_order() {
    assert_eq!(never_over(&[(7, 2), (3, 1), (7, 2)], 5, 5), None);
    let violation = never_over(&[(7, 3), (3, 1), (7, 2)], 5, 5).unwrap();
    assert_eq!(violation.to_string(), "6 units in (2, 7] ns, limit 5");
}

#[test]
fn the_start_is_exclusive() {
    assert_eq!(never_over(&[(2, 5), (7, 5)], 5, 5), None);
    assert!(never_over(&[(2, 5), (6, 1)], 5, 5).is_some());
}

#[test]
fn finds_the_fullest_interval() {
    let mut random = crate::Random::new(7);
    for _ in 0..300 {
        let instants: Vec<(u64, u64)> = (0..random.between(1, 30))
            .map(|_| (random.between(0, 100), random.between(1, 3)))
            .collect();
        let units_until = |end: u64| -> u128 {
            let inside = instants.iter().filter(|(at, _)| *at <= end && at + 25 > end);
            inside.map(|(_, units)| u128::from(*units)).sum()
        };
        let fullest = (0..=100).map(units_until).max().filter(|units| *units > 9);
        assert_eq!(never_over(&instants, 9, 25).map(|over| over.units), fullest);
    }
}

#[test]
fn a_bracket_longer_than_a_window_is_in_no_interval() {
    let long = Bracket { from_ns: 0, until_ns: 10, units: 9 };
    assert_eq!(surely_over(&[long], 5, 10), None);
    assert!(surely_over(&[Bracket { from_ns: 1, ..long }], 5, 10).is_some());
}

#[test]
fn nothing_admitted_is_never_over() {
    assert_eq!(never_over(&[], 1, 1), None);
}
