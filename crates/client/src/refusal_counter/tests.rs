//! Tests of `refusals`.

use super::*;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn too_many_refusals_stop_the_scope_and_reset_the_count() {
    let settings = Settings::builder().refusals(3, seconds(60)).build().unwrap();
    let mut refusals = RefusalCounter::default();
    for at in [0, 50, 61] {
        refusals.note(&settings, seconds(at));
        assert_eq!(refusals.stop(seconds(at)), Duration::ZERO, "the first is too old");
    }
    refusals.note(&settings, seconds(62));
    assert_eq!(refusals.stop(seconds(62)), seconds(60));
    assert_eq!(refusals.stop(seconds(122)), Duration::ZERO);
    refusals.note(&settings, seconds(122));
    assert_eq!(refusals.stop(seconds(122)), Duration::ZERO);
}

#[test]
fn one_refusal_can_stop_the_scope() {
    let settings = Settings::builder().refusals(1, seconds(5)).build().unwrap();
    let mut refusals = RefusalCounter::default();
    refusals.note(&settings, seconds(7));
    assert_eq!(refusals.stop(seconds(7)), seconds(5));
}
