//! The timeouts of a connection, without a timer per request.
//!
//! Requests and bytes are recorded in [`Activity`]. A timer ticks a few times per timeout. A
//! timeout has expired if nothing changed for its number of ticks.

use core::ops::Deref;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use parking_lot::Mutex;

/// The timeouts of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ConnectionTimeouts {
    /// The time for the head of a request, from its first byte.
    pub(crate) header: Duration,
    /// The time for a whole request, including its body.
    pub(crate) request: Duration,
    /// The time for a client to read its reply.
    pub(crate) write: Duration,
    /// The time after which a connection without a request is closed.
    pub(crate) idle: Duration,
    /// The time for replies that are still being sent when the connection is closed.
    pub(crate) drain: Duration,
}

/// The activity of a connection. No ordering is needed: it is read by the task that wrote it, or
/// for HTTP/2 and by the listener at worst a moment late.
#[derive(Debug, Default)]
pub struct Activity {
    /// Requests started plus requests ended.
    events: AtomicU64,
    in_flight: AtomicU32,
    /// Requests in flight that wait for the client.
    waiting: AtomicU32,
    /// Bytes of requests that have not arrived completely.
    pub(super) held: Mutex<usize>,
    /// Bytes arrived and no request has started since.
    is_partial: AtomicBool,
    /// The client does not read its replies.
    is_stalled: AtomicBool,
    /// The client uses HTTP/2 and has acknowledged the settings.
    is_open: AtomicBool,
    is_flooded: AtomicBool,
}

impl Activity {
    /// Expects the client to send first, within the time for a head.
    pub(crate) fn expect_opening(&self) {
        self.is_partial.store(true, Ordering::Relaxed);
    }

    /// Returns whether the server works on no request: it waits for the client.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) <= self.waiting.load(Ordering::Relaxed)
    }

    /// Returns whether no request has ended yet.
    pub(super) fn is_stranger(&self) -> bool {
        self.events() < 2
    }

    #[inline]
    pub(super) fn note_read(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.is_partial.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn note_write(&self, is_pending: bool) {
        self.is_stalled.store(is_pending, Ordering::Relaxed);
    }

    pub(super) fn note_open(&self) {
        self.is_open.store(true, Ordering::Relaxed);
    }

    pub(super) fn note_flood(&self) {
        self.is_flooded.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_flooded(&self) -> bool {
        self.is_flooded.load(Ordering::Relaxed)
    }

    pub(super) fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }
}

/// A request in flight, until dropped.
#[derive(Debug)]
pub(crate) struct ActiveRequest<A: Deref<Target = Activity>>(A);

impl<A: Deref<Target = Activity>> ActiveRequest<A> {
    /// Records the start of a request.
    #[inline]
    pub(crate) fn begin(activity: A) -> Self {
        activity.is_partial.store(false, Ordering::Relaxed);
        activity.in_flight.fetch_add(1, Ordering::Relaxed);
        activity.events.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl<A: Deref<Target = Activity>> Drop for ActiveRequest<A> {
    #[inline]
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }
}

/// A request in flight that waits for the client to send its body or to read its reply, until dropped.
#[derive(Debug)]
pub(crate) struct ClientWait<'a>(&'a Activity);

impl<'a> ClientWait<'a> {
    pub(crate) fn begin(activity: &'a Activity) -> Self {
        activity.waiting.fetch_add(1, Ordering::Relaxed);
        Self(activity)
    }
}

impl Drop for ClientWait<'_> {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The action for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeoutAction {
    Keep,
    /// It is idle: shut it down gracefully.
    Close,
    /// The client is too slow: close it immediately.
    Cut,
}

/// Compares the activity with the timeouts at every tick.
#[derive(Debug)]
pub(super) struct Timeouts {
    events: u64,
    /// Ticks since the last event.
    still: u32,
    /// Ticks during which a head was incomplete.
    partial: u32,
    /// Ticks during which the client read nothing.
    stalled: u32,
    /// Ticks since the connection was shut down gracefully.
    closing: Option<u32>,
    max: TimeoutTicks,
}

/// Timeouts in ticks.
#[derive(Debug, Clone, Copy)]
struct TimeoutTicks {
    head: u32,
    request: u32,
    write: u32,
    idle: u32,
    drain: u32,
}

/// Ticks per shortest timeout. A timeout expires between its length and a third more.
const TICKS: u32 = 4;

impl ConnectionTimeouts {
    /// Returns the time between two ticks.
    pub(super) fn period(&self) -> Duration {
        let shortest = self.header.min(self.write).min(self.idle).min(self.request).min(self.drain);
        (shortest / TICKS).max(Duration::from_millis(1))
    }
}

impl Timeouts {
    pub(super) fn new(limits: &ConnectionTimeouts) -> Self {
        let tick = limits.period();
        // Rounded up, plus one: the first tick may come right after the activity.
        let ticks = |timeout: Duration| {
            let ticks = timeout.as_nanos().div_ceil(tick.as_nanos().max(1));
            u32::try_from(ticks).unwrap_or(u32::MAX).saturating_add(1)
        };
        let max = TimeoutTicks {
            head: ticks(limits.header),
            request: ticks(limits.request),
            write: ticks(limits.write),
            idle: ticks(limits.idle),
            drain: ticks(limits.drain),
        };
        Self { events: 0, still: 0, partial: 0, stalled: 0, closing: None, max }
    }

    /// Starts the timeout for replies that are still being sent.
    pub(super) fn close(&mut self) {
        self.closing.get_or_insert(0);
    }

    pub(super) fn tick(&mut self, activity: &Activity) -> TimeoutAction {
        let events = activity.events.load(Ordering::Relaxed);
        let is_busy = activity.in_flight.load(Ordering::Relaxed) > 0;
        let is_partial = !is_busy
            && activity.is_partial.load(Ordering::Relaxed)
            // HTTP/2 frames need not belong to a request.
            && !activity.is_open.load(Ordering::Relaxed);
        let is_still = events == self.events;
        self.events = events;
        self.still = count(self.still, is_still);
        self.partial = count(self.partial, is_still && is_partial);
        self.stalled = count(self.stalled, activity.is_stalled.load(Ordering::Relaxed));
        if let Some(closing) = &mut self.closing {
            // A client that never grants a window would keep a closed connection open.
            *closing = closing.saturating_add(1);
            if *closing >= self.max.drain {
                return TimeoutAction::Cut;
            }
        }
        if self.stalled >= self.max.write
            || self.partial >= self.max.head
            || is_busy && self.still >= self.max.request
        {
            return TimeoutAction::Cut;
        }
        if !is_busy && self.still >= self.max.idle && self.closing.is_none() {
            self.close();
            return TimeoutAction::Close;
        }
        TimeoutAction::Keep
    }
}

fn count(ticks: u32, goes_on: bool) -> u32 {
    if goes_on { ticks.saturating_add(1) } else { 0 }
}

#[cfg(test)]
mod tests;
