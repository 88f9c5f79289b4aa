//! Tests of `random`.

use super::*;

#[test]
fn numbers_cover_the_range_below_the_bound() {
    let mut random = Random::from_seed(1);
    let mut seen = [0u32; 10];
    for _ in 0..10_000 {
        seen[usize::try_from(random.below(10)).unwrap()] += 1;
    }
    assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
    assert_eq!(random.below(0), 0);
}

#[test]
fn any_time_can_be_a_bound() {
    let mut random = Random::from_seed(2);
    assert_eq!(random.within(Duration::ZERO), Duration::ZERO);
    assert!(random.within(Duration::MAX) <= Duration::MAX);
    assert!(random.within(Duration::from_secs(5)) <= Duration::from_secs(5));
}

#[test]
fn processes_draw_different_numbers() {
    let drawn = [(); 2].map(|()| Random::from_system().below(u64::MAX));
    assert_ne!(drawn[0], drawn[1]);
}
