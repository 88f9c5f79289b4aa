//! Tests of `timeouts`.

use super::*;

/// With a tick per second.
fn timeouts() -> Timeouts {
    let seconds = Duration::from_secs;
    Timeouts::new(&ConnectionTimeouts {
        header: seconds(4),
        request: seconds(12),
        write: seconds(6),
        idle: seconds(20),
        drain: seconds(5),
    })
}

/// Returns the first tick whose result is not `Keep`.
fn end(timeouts: &mut Timeouts, activity: &Activity) -> (u32, TimeoutAction) {
    (1..100)
        .map(|ticks| (ticks, timeouts.tick(activity)))
        .find(|(_, result)| *result != TimeoutAction::Keep)
        .unwrap()
}

#[test]
fn every_slow_client_is_cut_or_closed() {
    let idle = Activity::default();
    assert_eq!(end(&mut timeouts(), &idle), (21, TimeoutAction::Close));
    let slow_head = Activity::default();
    slow_head.note_read();
    assert_eq!(end(&mut timeouts(), &slow_head), (5, TimeoutAction::Cut));
    let slow_body = Activity::default();
    let _busy = ActiveRequest::begin(&slow_body);
    slow_body.note_read();
    // The start of the request is an event that the first tick sees.
    assert_eq!(end(&mut timeouts(), &slow_body), (14, TimeoutAction::Cut));
    let slow_reader = Activity::default();
    slow_reader.note_write(true);
    assert_eq!(end(&mut timeouts(), &slow_reader), (7, TimeoutAction::Cut));
}

#[test]
fn active_connections_are_kept() {
    let (mut timeouts, activity) = (timeouts(), Activity::default());
    for _ in 0..100 {
        activity.note_read();
        drop(ActiveRequest::begin(&activity));
        activity.note_write(true);
        activity.note_write(false);
        assert_eq!(timeouts.tick(&activity), TimeoutAction::Keep);
    }
}

// HTTP/2 frames without a request must neither look like a slow head nor keep an idle connection
// open.
#[test]
fn pings_are_neither_heads_nor_requests() {
    let (mut timeouts, activity) = (timeouts(), Activity::default());
    activity.expect_opening();
    drop(ActiveRequest::begin(&activity));
    activity.note_open();
    activity.note_read();
    assert_eq!(end(&mut timeouts, &activity), (22, TimeoutAction::Close));
}

// A client that grants no window keeps its streams open although nothing happens on them.
#[test]
fn a_connection_that_does_not_close_is_cut() {
    let (mut timeouts, activity) = (timeouts(), Activity::default());
    assert_eq!(end(&mut timeouts, &activity), (21, TimeoutAction::Close));
    assert_eq!(end(&mut timeouts, &activity), (6, TimeoutAction::Cut));
}

#[test]
fn a_client_that_never_opens_its_connection_is_cut() {
    let silent = Activity::default();
    silent.expect_opening();
    assert_eq!(end(&mut timeouts(), &silent), (5, TimeoutAction::Cut));
    silent.note_open();
    assert_eq!(end(&mut timeouts(), &silent), (21, TimeoutAction::Close));
}
