//! The room for calls in flight, and the queue of callers that wait for it.
//!
//! A caller without room waits: its deadline is for the servers and starts when it has its turn. So a
//! backlog of this process does not look like an outage, and no failure mode admits because of it.

use core::sync::atomic::{AtomicUsize, Ordering};
use core::time::Duration;

use slidegate::DegradedReason;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::{Instant, timeout};

use super::failure::Failure;

/// The callers in flight, and those that wait, first come, first served.
#[derive(Debug)]
pub(super) struct Turns {
    room: Semaphore,
    in_flight_max: usize,
    waiting: AtomicUsize,
    /// The longest time to wait.
    patience: Duration,
}

/// The right to be in flight, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn<'a> {
    _permit: SemaphorePermit<'a>,
    /// The deadline of the call. It is later than the one asked for by the time that the caller
    /// waited.
    pub(crate) until: Instant,
    /// Whether others were in flight already.
    pub(crate) is_busy: bool,
    /// Whether the caller had to wait.
    pub(crate) has_waited: bool,
}

/// The maximum number of callers that wait.
const WAITING_MAX: usize = 1 << 16;

/// The shortest limit of the time to wait. A server that hangs is detected in that time: the calls in
/// flight fail at their deadlines, and the breaker opens.
const PATIENCE_MIN: Duration = Duration::from_secs(1);

impl Turns {
    pub(super) fn new(in_flight_max: usize, call: Duration) -> Self {
        Self {
            room: Semaphore::new(in_flight_max),
            in_flight_max,
            waiting: AtomicUsize::new(0),
            patience: PATIENCE_MIN.max(call.saturating_mul(2)),
        }
    }

    /// Waits for room for a call whose deadline would be `until` without the wait.
    ///
    /// # Errors
    ///
    /// Returns an error if too many callers wait, or if there is no room for too long.
    pub(super) async fn take(&self, until: Instant) -> Result<Turn<'_>, Failure> {
        let is_busy = self.room.available_permits() < self.in_flight_max;
        if let Ok(permit) = self.room.try_acquire() {
            return Ok(Turn { _permit: permit, until, is_busy, has_waited: false });
        }
        let _place = Place::new(&self.waiting)?;
        let asked = Instant::now();
        match timeout(self.patience, self.room.acquire()).await {
            Ok(Ok(permit)) => {
                let until = until + asked.elapsed();
                Ok(Turn { _permit: permit, until, is_busy: true, has_waited: true })
            }
            _ => Err(crowded(&format!("no room for a call within {:?}", self.patience))),
        }
    }
}

/// A place in the queue.
struct Place<'a>(&'a AtomicUsize);

impl<'a> Place<'a> {
    fn new(waiting: &'a AtomicUsize) -> Result<Self, Failure> {
        // Only the number matters, so the order of accesses does not.
        let place = Self(waiting);
        if waiting.fetch_add(1, Ordering::Relaxed) >= WAITING_MAX {
            return Err(crowded(&format!("{WAITING_MAX} callers wait already")));
        }
        Ok(place)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

fn crowded(what: &str) -> Failure {
    let why = format!("too many calls are in flight, {what}: raise in_flight_max");
    Failure::refused(DegradedReason::InFlightMax, why)
}
