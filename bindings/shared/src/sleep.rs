//! Sleeping while a request waits for units.

use core::time::Duration;

use slidegate::{Clock as _, ManualClock};
use slidegate_gate::Sleep;

/// How often a manual clock is read while a request waits for it.
const POLL: Duration = Duration::from_millis(1);

/// Returns a sleep by `clock` or, without one, by real time. It needs a tokio runtime in both cases.
///
/// A test that waits on a manual clock advances it in another task, so the clock is read again every
/// millisecond.
pub fn sleep(clock: Option<&ManualClock>) -> Sleep {
    let Some(clock) = clock.cloned() else { return Sleep::tokio() };
    Sleep::new(move |time| {
        let clock = clock.clone();
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let until = clock.now().saturating_add(nanos);
        async move {
            while clock.now() < until {
                tokio::time::sleep(POLL).await;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_manual_clock_ends_the_sleep() {
        let clock = ManualClock::new(Duration::from_secs(1_700_000_000));
        let mut sleeping = sleep(Some(&clock)).sleep(Duration::from_secs(3600));
        clock.advance(Duration::from_millis(3_599_999));
        assert!((&mut sleeping).now_or_never().is_none());
        clock.advance(Duration::from_millis(1));
        sleeping.await;
    }
}
