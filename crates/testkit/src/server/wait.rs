//! Waiting for something real: polled, with a deadline, never a fixed sleep.

use std::thread;
use std::time::{Duration, Instant};

use super::ServerError;

/// How long anything may take before a test is given up. Far beyond what a busy machine needs.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// How long a poll rests between two looks.
const REST: Duration = Duration::from_millis(5);

/// Looks every few milliseconds until there is an answer, for [`PATIENCE`] at most.
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

/// [`poll`] with a patience of one's own.
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

/// [`poll`] for a look that awaits something. It rests in real time, also where a test has stopped tokio's
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
    let message = format!("waited {} s in vain for {what}", patience.as_secs());
    Err(ServerError::new(message))
}

/// What the clock shows that all processes of this machine share, and that nobody can set.
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
