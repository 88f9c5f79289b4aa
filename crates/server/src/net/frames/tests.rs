//! Tests of `frames`.

use std::sync::Arc;

use super::super::timeouts::ActiveRequest;
use super::*;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags, 0, 0, 0, 0];
    frame.extend_from_slice(payload);
    frame
}

fn opened(activity: &Activity) -> Frames {
    let mut frames = Frames::default();
    assert_eq!(frames.read(PREFACE, activity), Ok(()));
    frames
}

/// Returns the number of frames after which the connection ends, up to ten thousand.
fn ends_after(frame: &[u8], piece: usize) -> Option<usize> {
    let activity = Activity::default();
    let mut frames = opened(&activity);
    (0..10_000)
        .find(|_| frame.chunks(piece).any(|bytes| frames.read(bytes, &activity) == Err(Flooded)))
}

#[test]
fn floods_of_control_frames_end_at_any_piece_size() {
    let floods = [
        frame(4, 0, &[]),
        frame(4, 0, &[0, 3, 0, 0, 0, 1]),
        frame(6, 0, &[0; 8]),
        frame(8, 0, &[0, 0, 0, 1]),
        frame(2, 0, &[0; 5]),
        frame(3, 0, &[0; 4]),
        frame(0, 0, &[]),
        frame(200, 0, &[7; 30]),
    ];
    for flood in floods {
        for piece in [1, 4, 9, 100] {
            assert_eq!(ends_after(&flood, piece), Some(CONTROL_MAX as usize), "{flood:?}");
        }
    }
    assert_eq!(ends_after(&frame(0, 0, b"body"), 5), None);
}

#[test]
fn requests_allow_more_control_frames() {
    let activity = Arc::new(Activity::default());
    let mut frames = opened(&activity);
    let update = frame(8, 0, &[0, 0, 0, 1]);
    for _ in 0..10_000 {
        drop(ActiveRequest::begin(&*activity));
        for _ in 0..8 {
            assert_eq!(frames.read(&update, &activity), Ok(()));
        }
    }
}

#[test]
fn other_protocols_are_not_followed() {
    let activity = Activity::default();
    let mut frames = Frames::default();
    assert_eq!(frames.read(b"PRI * HTTP/1.1\r\n\r\n", &activity), Ok(()));
    let ping = frame(6, 0, &[0; 8]);
    assert!((0..10_000).all(|_| frames.read(&ping, &activity) == Ok(())));
}
