//! Tests of `timeouts`.

use super::*;

/// A beat a second.
fn timeouts() -> Timeouts {
    let seconds = Duration::from_secs;
    Timeouts::new(&ServeLimits {
        header_timeout: seconds(4),
        request_timeout: seconds(12),
        write_timeout: seconds(6),
        idle_timeout: seconds(20),
        ..ServeLimits::default()
    })
}

/// The first beat whose verdict is not `Keep`.
fn end(timeouts: &mut Timeouts, activity: &Activity) -> (u32, BeatResult) {
    (1..100)
        .map(|beats| (beats, timeouts.beat(activity)))
        .find(|(_, result)| *result != BeatResult::Keep)
        .unwrap()
}

#[test]
fn every_slow_client_is_cut_or_closed() {
    let idle = Activity::default();
    assert_eq!(end(&mut timeouts(), &idle), (21, BeatResult::Close));
    let slow_head = Activity::default();
    slow_head.read(1);
    assert_eq!(end(&mut timeouts(), &slow_head), (5, BeatResult::Cut));
    let slow_body = Activity::default();
    let _busy = slow_body.begin(false);
    slow_body.read(1);
    // The beginning of the request is an event that the first beat sees.
    assert_eq!(end(&mut timeouts(), &slow_body), (14, BeatResult::Cut));
    let slow_reader = Activity::default();
    slow_reader.wrote(true);
    assert_eq!(end(&mut timeouts(), &slow_reader), (7, BeatResult::Cut));
}

#[test]
fn active_connections_are_kept() {
    let (mut timeouts, activity) = (timeouts(), Activity::default());
    for _ in 0..100 {
        activity.read(1);
        drop(activity.begin(false));
        activity.wrote(true);
        activity.wrote(false);
        assert_eq!(timeouts.beat(&activity), BeatResult::Keep);
    }
}

// HTTP/2 frames that belong to no request must neither look like a slow head nor keep an idle
// connection open.
#[test]
fn pings_are_neither_heads_nor_requests() {
    let (mut timeouts, activity) = (timeouts(), Activity::default());
    drop(activity.begin(true));
    activity.read(1);
    assert_eq!(end(&mut timeouts, &activity), (22, BeatResult::Close));
}
