//! Tests of `clock_jump`.

use super::*;

const MS: Duration = Duration::from_millis(1);

fn reading(start: Instant, server_ms: u32, sent_ms: u32, received_ms: u32) -> ClockReading {
    ClockReading {
        server: 1_000_000 * MS + server_ms * MS,
        sent: start + sent_ms * MS,
        received: start + received_ms * MS,
    }
}

#[test]
fn detects_steps_in_both_directions_only() {
    let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
    let small = |millis| Some(ClockStep::Small(millis * MS));
    for (server, sent, received, expected, what) in [
        (0, 0, 1, None, "the first reading"),
        (1000, 1000, 1001, None, "an ordinary second"),
        (3000, 1500, 4000, None, "a slow reply"),
        (4400, 4000, 4001, None, "a difference that the slow reply explains"),
        (4500, 4100, 4101, None, "an ordinary step"),
        (4903, 4200, 4202, small(301), "a small step ahead"),
        (4603, 4300, 4302, small(398), "a small step back"),
        (5704, 4400, 4401, Some(ClockStep::Jump), "a jump ahead"),
        (5804, 4500, 4501, None, "reported once"),
        (4804, 4600, 4601, Some(ClockStep::Jump), "a jump back"),
    ] {
        assert_eq!(detector.step(reading(start, server, sent, received)), expected, "{what}");
    }
}

// A server whose clock is being slewed, seen by a process that was idle for a minute.
#[test]
fn drift_is_not_a_step() {
    let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
    assert_eq!(detector.step(reading(start, 0, 0, 1)), None);
    assert_eq!(detector.step(reading(start, 60_060, 60_000, 60_001)), None);
    assert_eq!(detector.step(reading(start, 120_000, 120_000, 120_001)), None);
    let slow_and_then_stepped = reading(start, 180_200, 180_000, 180_001);
    assert_eq!(detector.step(slow_and_then_stepped), Some(ClockStep::Small(199 * MS)));
}

#[test]
fn out_of_order_replies_are_not_a_step() {
    let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
    assert_eq!(detector.step(reading(start, 2000, 2000, 2001)), None);
    assert_eq!(detector.step(reading(start, 100, 100, 2002)), None);
    assert_eq!(detector.step(reading(start, 2100, 2100, 2101)), None);
}
