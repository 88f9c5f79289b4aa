//! Times as whole seconds, rounded to the side on which nobody comes too early.

use std::time::{Duration, SystemTime};

/// The largest integer that a structured field may carry: fifteen digits.
pub(crate) const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Whole seconds, rounded up: who waits them has waited long enough.
pub(crate) fn up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// A window as the fields tell it, whole seconds and at least one.
///
/// Up, because a client that believes a window longer than it is goes slower than it could; one
/// that believes it shorter is denied.
pub(crate) fn of_window(window: Duration) -> u64 {
    up(window).max(1)
}

/// Seconds since the epoch of the moment `after` from `now`, rounded up. A clock before the epoch
/// reads as the epoch.
pub(crate) fn since_epoch(now: SystemTime, after: Duration) -> u64 {
    let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    up(now.saturating_add(after))
}

/// A number cut to what a structured field may carry.
pub(crate) fn cut(number: u64) -> u64 {
    number.min(INTEGER_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_second_is_a_second() {
        assert_eq!(up(Duration::ZERO), 0);
        assert_eq!(up(Duration::from_nanos(1)), 1);
        assert_eq!(up(Duration::from_secs(7)), 7);
        assert_eq!(up(Duration::from_millis(7001)), 8);
        assert_eq!(up(Duration::MAX), u64::MAX);
        assert_eq!(of_window(Duration::from_millis(100)), 1);
    }

    #[test]
    fn moments_round_up_once() {
        // Rounding both parts up would name a moment a second too late.
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_500);
        assert_eq!(since_epoch(now, Duration::from_millis(500)), 1001);
        assert_eq!(since_epoch(now, Duration::from_millis(501)), 1002);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
        assert_eq!(since_epoch(before, Duration::from_secs(3)), 3);
        assert_eq!(since_epoch(now, Duration::MAX), u64::MAX);
    }
}
