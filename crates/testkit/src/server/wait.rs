//! Waits for real conditions: polled, with a deadline, never a fixed sleep.

use std::thread;
use std::time::{Duration, Instant};

use super::ServerError;

/// The maximum time before a test fails, far more than a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The polling interval.
const REST: Duration = Duration::from_millis(5);

/// Polls every few milliseconds until there is a result, for at most [`PATIENCE`].
///
/// ```
/// use slidegate_testkit::server::poll;
///
/// let mut looks = 0;
/// let answer = poll("the third look", || {
///     looks += 1;
///     Ok((looks == 3).then_some("seen"))
/// })?;
/// assert_eq!(answer, "seen");
/// # Ok::<(), slidegate_testkit::server::ServerError>(())
/// ```
pub fn poll<T>(
    what: &str,
    look: impl FnMut() -> Result<Option<T>, ServerError>,
) -> Result<T, ServerError> {
    poll_for(PATIENCE, what, look)
}

/// [`poll`] with another timeout.
pub fn poll_for<T>(
    patience: Duration,
    what: &str,
    mut look: impl FnMut() -> Result<Option<T>, ServerError>,
) -> Result<T, ServerError> {
    let started = now();
    loop {
        if let Some(answer) = look()? {
            return Ok(answer);
        }
        give_up_after(patience, started, what)?;
        rest();
    }
}

/// [`poll`] with an async condition. It sleeps in real time, also if a test has paused tokio's
/// clock.
pub async fn poll_async<T>(
    what: &str,
    mut look: impl AsyncFnMut() -> Option<T>,
) -> Result<T, ServerError> {
    let started = now();
    loop {
        if let Some(answer) = look().await {
            return Ok(answer);
        }
        give_up_after(PATIENCE, started, what)?;
        let rested = tokio::task::spawn_blocking(rest).await;
        rested.map_err(|error| ServerError::new(format!("cannot rest: {error}")))?;
    }
}

fn give_up_after(patience: Duration, started: Instant, what: &str) -> Result<(), ServerError> {
    if started.elapsed() <= patience {
        return Ok(());
    }
    let message = format!("timed out after {} s waiting for {what}", patience.as_secs());
    Err(ServerError::new(message))
}

/// Returns the time of a clock that all processes of this machine share and that cannot be set.
pub fn monotonic() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let (seconds, nanos) = (u64::try_from(now.tv_sec), u32::try_from(now.tv_nsec));
    Duration::new(seconds.unwrap_or_default(), nanos.unwrap_or_default())
}

#[expect(clippy::disallowed_methods, reason = "a server lives in real time")]
pub(super) fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "between two looks at a real server")]
pub(super) fn rest() {
    thread::sleep(REST);
}
