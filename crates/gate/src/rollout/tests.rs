//! Tests of `rollout`.

use super::*;

fn within(percent: u8, policy: &str) -> Vec<u32> {
    let share = Share::new(percent).unwrap();
    (0..10_000u32).filter(|number| share.contains(policy, &number.to_be_bytes())).collect()
}

#[test]
fn a_growing_share_keeps_its_keys() {
    let mut before = Vec::new();
    for percent in [0, 1, 10, 50, 99, 100] {
        let now = within(percent, "api");
        let expected = usize::from(percent) * 100;
        assert!(now.len().abs_diff(expected) <= 200, "{} of {expected}", now.len());
        assert!(before.iter().all(|key| now.contains(key)), "{percent} lost a key");
        before = now;
    }
    assert_eq!(within(0, "api").len(), 0);
    assert_eq!(within(100, "api").len(), 10_000);
    assert_eq!(Share::new(101), None);
}

// A hash that changed with the version of a library would change the limits of live clients.
#[test]
fn every_process_chooses_the_same_keys() {
    let share = Share::new(30).unwrap();
    let held: Vec<u8> = (0..12).filter(|key| share.contains("api", &[*key])).collect();
    assert_eq!(held, [3, 4, 5, 6, 8]);
    assert_ne!(within(30, "api"), within(30, "search"));
}
