//! Names and values of header fields: numbers, and times in whole seconds.

use std::sync::LazyLock;
use std::time::{Duration, SystemTime};

use http::{HeaderName, HeaderValue};
use slidegate::Algorithm;

pub(crate) const RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
pub(crate) const RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

pub(crate) const RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
pub(crate) const RATELIMIT_REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
pub(crate) const RATELIMIT_RESET: HeaderName = HeaderName::from_static("ratelimit-reset");

pub(crate) const X_RATELIMIT_LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
pub(crate) const X_RATELIMIT_REMAINING: HeaderName =
    HeaderName::from_static("x-ratelimit-remaining");
pub(crate) const X_RATELIMIT_RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");

/// The largest integer in a structured field: fifteen digits.
const INTEGER_MAX: u64 = 999_999_999_999_999;

/// Caps a number at the maximum of a structured field.
pub(crate) fn cut(number: u64) -> u64 {
    number.min(INTEGER_MAX)
}

/// Formats a number as a field value.
///
/// Numbers below ten thousand need no allocation. Those below a thousand are prepared, because
/// every response has a few of them.
pub(crate) fn value(number: u64) -> HeaderValue {
    let index = usize::try_from(number).unwrap_or(usize::MAX);
    VALUES.get(index).map_or_else(|| new_value(number), HeaderValue::clone)
}

static VALUES: LazyLock<Box<[HeaderValue]>> = LazyLock::new(|| (0..1000).map(new_value).collect());

#[inline(never)]
fn new_value(number: u64) -> HeaderValue {
    match small(number) {
        Some(text) => HeaderValue::from_static(text),
        None => HeaderValue::from(number),
    }
}

/// Returns the text of a number below ten thousand.
fn small(number: u64) -> Option<&'static str> {
    let number = usize::try_from(number).ok().filter(|number| *number < 10_000)?;
    let zeros = match number {
        0..10 => 3,
        10..100 => 2,
        100..1000 => 1,
        _ => 0,
    };
    SMALL.get(number * 4 + zeros..(number + 1) * 4)
}

/// All numbers below ten thousand, each with four digits.
static SMALL: LazyLock<String> =
    LazyLock::new(|| (0..10_000).map(|number| format!("{number:04}")).collect::<Vec<_>>().concat());

/// Converts to whole seconds, rounded up: a client that waits for them never returns too early.
pub(crate) fn seconds_up(duration: Duration) -> u64 {
    duration.as_secs().saturating_add(u64::from(duration.subsec_nanos() > 0))
}

/// Returns a wait for units of a quota in whole seconds.
///
/// The wait is rounded up, so that a client that waits for this long is not early. There is one
/// exception: a wait that exceeds the window only because times are stored in ticks counts as the
/// window, for all algorithms except `counter` and `segments`, whose waits may be longer. A unit is
/// recorded at the tick after its request, up to 2 ms late with the default tick and clock. Rounded
/// up once more, that would be a whole second too much: a client of a quota of 1 per second would
/// send at half the rate. The network time of the response and the next request compensates for
/// these 2 ms. A faster client should wait 2 ms longer.
///
/// ```
/// use std::time::Duration;
/// use slidegate::Algorithm;
/// use slidegate_http::wait_seconds;
///
/// let window = Duration::from_secs(10);
/// assert_eq!(wait_seconds(Duration::from_millis(9_001), window, Algorithm::Log), 10);
/// assert_eq!(wait_seconds(Duration::from_millis(10_001), window, Algorithm::Log), 10);
/// // Really longer than the window.
/// assert_eq!(wait_seconds(Duration::from_millis(10_500), window, Algorithm::Log), 11);
/// assert_eq!(wait_seconds(Duration::from_millis(10_001), window, Algorithm::Counter), 11);
/// ```
pub fn wait_seconds(wait: Duration, window: Duration, algorithm: Algorithm) -> u64 {
    seconds_up(exact_wait(wait, window, algorithm))
}

/// The maximum by which the recorded time of a unit is later than its request: a tick of 1 ms for
/// rounding up, and another if the clock's lag of 0.1 ms reaches into it.
const TICKS: Duration = Duration::from_millis(2);

/// Returns a wait for a quota with this window, without the time that rounding to ticks adds.
pub(crate) fn exact_wait(wait: Duration, window: Duration, algorithm: Algorithm) -> Duration {
    match algorithm {
        // Their waits may be longer than the window by any time.
        Algorithm::Counter | Algorithm::Segments { .. } => wait,
        _ => without_tick(wait, window),
    }
}

/// Returns the window if the wait exceeds it only because of rounding to ticks, otherwise the wait.
fn without_tick(wait: Duration, window: Duration) -> Duration {
    let excess = wait.saturating_sub(window);
    if excess <= TICKS { wait.min(window) } else { wait }
}

/// Converts a window to whole seconds, rounded up, at least one.
///
/// A client that assumes a longer window sends less than it could. One that assumes a shorter
/// window is denied.
pub(crate) fn window_seconds(window: Duration) -> u64 {
    seconds_up(window).max(1)
}

/// Returns the time `after` from `now` in seconds since the epoch, rounded up.
pub(crate) fn epoch_seconds(now: SystemTime, after: Duration) -> u64 {
    seconds_up(since_epoch(now).saturating_add(after))
}

/// Returns the time since the epoch. A clock before the epoch reads as the epoch.
pub(crate) fn since_epoch(now: SystemTime) -> Duration {
    now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_every_number() {
        let large = [10_000, 10_001, 65_536, u64::from(u32::MAX), u64::MAX];
        for number in (0..10_000).chain(large) {
            assert_eq!(value(number), number.to_string());
        }
        assert_eq!(small(10_000), None);
    }

    #[test]
    fn rounds_a_fraction_up_to_a_second() {
        assert_eq!(seconds_up(Duration::ZERO), 0);
        assert_eq!(seconds_up(Duration::from_nanos(1)), 1);
        assert_eq!(seconds_up(Duration::from_secs(7)), 7);
        assert_eq!(seconds_up(Duration::from_millis(7001)), 8);
        assert_eq!(seconds_up(Duration::MAX), u64::MAX);
        assert_eq!(window_seconds(Duration::from_millis(100)), 1);
    }

    #[test]
    fn times_are_rounded_up_once() {
        // Rounding both parts up would give a time one second too late.
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(1_000_500);
        assert_eq!(epoch_seconds(now, Duration::from_millis(500)), 1001);
        assert_eq!(epoch_seconds(now, Duration::from_millis(501)), 1002);
        let before = SystemTime::UNIX_EPOCH - Duration::from_secs(9);
        assert_eq!(epoch_seconds(before, Duration::from_secs(3)), 3);
        assert_eq!(epoch_seconds(now, Duration::MAX), u64::MAX);
    }
}
