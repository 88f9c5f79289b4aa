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
fn notices_jumps_both_ways_and_nothing_else() {
    let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
    assert!(!detector.has_jumped(reading(start, 0, 0, 1)));
    assert!(!detector.has_jumped(reading(start, 1000, 1000, 1001)), "an ordinary second");
    assert!(!detector.has_jumped(reading(start, 3000, 1500, 4000)), "a slow answer");
    assert!(!detector.has_jumped(reading(start, 4400, 4000, 4001)), "a jump within the tolerance");
    assert!(detector.has_jumped(reading(start, 5102, 4100, 4101)), "a jump ahead");
    assert!(!detector.has_jumped(reading(start, 5202, 4200, 4201)), "reported once");
    assert!(detector.has_jumped(reading(start, 4202, 4300, 4301)), "a jump back");
}

#[test]
fn answers_out_of_order_are_no_jump() {
    let (detector, start) = (ClockJumpDetector::new(500 * MS), Instant::now());
    assert!(!detector.has_jumped(reading(start, 2000, 2000, 2001)));
    assert!(!detector.has_jumped(reading(start, 100, 100, 2002)));
    assert!(!detector.has_jumped(reading(start, 2100, 2100, 2101)));
}
