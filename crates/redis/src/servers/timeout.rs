//! A timeout that does not count the delays of this process.

use core::pin::pin;
use core::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, timeout_at};

/// The parts of a timeout.
const PARTS: u32 = 8;

/// The longest extension because of tasks that wait for a thread of the runtime.
const EXTENSION_MAX: Duration = Duration::from_secs(1);

/// Waits for a future until `until`, a point in time about `time` from now, or returns `None`.
///
/// If the runtime is busy, requests and replies wait in this process, and must not look like a server
/// that does not reply. A single thread also wakes this task late: the timeout is divided into parts,
/// and `until` moves by the time for which a part was late. Several threads share a queue of tasks:
/// while it is not empty, the time starts again, for at most a second.
pub(crate) async fn within<T>(
    time: Duration,
    until: &mut Instant,
    future: impl Future<Output = T>,
) -> Option<T> {
    let (mut future, part) = (pin!(future), time / PARTS);
    let mut now = Instant::now();
    let mut extension = Duration::ZERO;
    loop {
        let next = (now + part).min(*until);
        let output = timeout_at(next, &mut future).await.ok();
        now = Instant::now();
        let late = now.saturating_duration_since(next);
        if late > part / 2 {
            *until += late;
        }
        if output.is_some() {
            return output;
        }
        if now >= *until {
            if extension >= EXTENSION_MAX || !is_queue_waiting() {
                return None;
            }
            extension += time;
            *until = now + time;
        }
    }
}

/// Returns `true` if tasks wait in the queue that the threads of the runtime share.
fn is_queue_waiting() -> bool {
    Handle::try_current().is_ok_and(|runtime| runtime.metrics().global_queue_depth() > 0)
}
