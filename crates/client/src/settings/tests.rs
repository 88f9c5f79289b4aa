//! Tests of `settings`.

use super::*;

#[test]
fn the_defaults_are_in_range() {
    assert_eq!(Settings::builder().build().unwrap(), Settings::default());
}

#[test]
fn jitter_is_a_share_with_a_bound() {
    let settings = Settings::default();
    assert_eq!(settings.jitter(Duration::from_secs(1)), Duration::from_millis(100));
    assert_eq!(settings.jitter(Duration::from_secs(60)), Duration::from_secs(5));
    assert_eq!(settings.jitter(Duration::MAX), Duration::from_secs(5));
    assert_eq!(settings.jitter(Duration::ZERO), Duration::ZERO);
}

#[test]
fn backoff_doubles_up_to_its_bound() {
    let settings = Settings::default();
    let millis = |attempts| settings.backoff(attempts).as_millis();
    assert_eq!(
        [1, 2, 3, 6, 7, 8, u32::MAX].map(millis),
        [500, 1000, 2000, 16_000, 30_000, 30_000, 30_000]
    );
}

#[test]
fn errors_name_the_setting() {
    let year = Duration::from_secs(366 * 24 * 3600);
    let bad = [
        (Settings::builder().reserve_percent(91), "reserve_percent 91"),
        (Settings::builder().attempts_max(101), "attempts_max 101"),
        (Settings::builder().budget(101, 0), "budget percent 101"),
        (Settings::builder().budget(0, u32::MAX), "budget floor"),
        (Settings::builder().refusals(0, year), "refusals_max 0"),
        (Settings::builder().refusals(1, Duration::ZERO), "refusals window 0ns"),
        (Settings::builder().scopes_max(0), "scopes_max 0"),
        (Settings::builder().waiters_max(65_537), "waiters_max 65537"),
        (Settings::builder().deadline(year * 11), "deadline"),
        (Settings::builder().backoff(year, Duration::ZERO), "backoff 0ns"),
        (Settings::builder().hold_max(Duration::ZERO), "hold_max 0ns"),
        (Settings::builder().jitter(200, year), "jitter percent 200"),
    ];
    for (builder, named) in bad {
        let message = builder.build().unwrap_err().to_string();
        assert!(message.starts_with(named) && message.contains("use "), "{message}");
    }
}
