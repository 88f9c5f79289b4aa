//! The timeouts of a connection, without a timer per request.
//!
//! Requests and bytes are noted in [`Activity`]. A timer beats a few times per timeout; a timeout has
//! expired when nothing changed for as many beats as it has.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use super::ServeLimits;
use crate::net::IoObserver;

/// What a connection has done. Nothing has to be ordered: it is read by the task that wrote it, or
/// for HTTP/2 one beat late at worst.
#[derive(Debug, Default)]
pub(super) struct Activity {
    /// Requests begun plus requests ended.
    events: AtomicU64,
    in_flight: AtomicU32,
    /// Bytes arrived and no request has begun since.
    is_partial: AtomicBool,
    /// The client does not read what is written.
    is_stalled: AtomicBool,
    is_http2: AtomicBool,
}

/// A request in flight, until dropped.
#[derive(Debug)]
pub(super) struct ActiveRequest<'a>(&'a Activity);

impl IoObserver for Activity {
    #[inline]
    fn read(&self, _: usize) {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.is_partial.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    fn wrote(&self, is_pending: bool) {
        self.is_stalled.store(is_pending, Ordering::Relaxed);
    }
}

impl Activity {
    /// Notes the beginning of a request.
    #[inline]
    pub(super) fn begin(&self, is_http2: bool) -> ActiveRequest<'_> {
        if is_http2 {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        self.is_partial.store(false, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(1, Ordering::Relaxed);
        ActiveRequest(self)
    }
}

impl Drop for ActiveRequest<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BeatResult {
    Keep,
    /// It is idle: shut it down gracefully.
    Close,
    /// The client is too slow: close it at once.
    Cut,
}

/// Compares the activity with the timeouts, beat by beat.
#[derive(Debug)]
pub(super) struct Timeouts {
    events: u64,
    /// Beats since the last event.
    still: u32,
    /// Beats during which a head was incomplete.
    partial: u32,
    /// Beats during which the client read nothing.
    stalled: u32,
    max: BeatsMax,
}

/// Timeouts in beats.
#[derive(Debug, Clone, Copy)]
struct BeatsMax {
    head: u32,
    request: u32,
    write: u32,
    idle: u32,
}

/// Beats per shortest timeout. A timeout expires between its length and a third more.
const BEATS: u32 = 4;

impl Timeouts {
    pub(super) fn new(limits: &ServeLimits) -> Self {
        let beat = Self::period(limits);
        // Rounded up, plus one: the first beat may come right after the activity.
        let beats = |timeout: Duration| {
            let beats = timeout.as_nanos().div_ceil(beat.as_nanos().max(1));
            u32::try_from(beats).unwrap_or(u32::MAX).saturating_add(1)
        };
        let max = BeatsMax {
            head: beats(limits.header_timeout),
            request: beats(limits.request_timeout),
            write: beats(limits.write_timeout),
            idle: beats(limits.idle_timeout),
        };
        Self { events: 0, still: 0, partial: 0, stalled: 0, max }
    }

    /// The time between two beats.
    pub(super) fn period(limits: &ServeLimits) -> Duration {
        let shortest = limits.header_timeout.min(limits.write_timeout).min(limits.idle_timeout);
        (shortest.min(limits.request_timeout) / BEATS).max(Duration::from_millis(1))
    }

    pub(super) fn beat(&mut self, activity: &Activity) -> BeatResult {
        let events = activity.events.load(Ordering::Relaxed);
        let is_busy = activity.in_flight.load(Ordering::Relaxed) > 0;
        let is_partial = !is_busy
            && activity.is_partial.load(Ordering::Relaxed)
            // HTTP/2 frames need not belong to a request.
            && !activity.is_http2.load(Ordering::Relaxed);
        let is_still = events == self.events;
        self.events = events;
        self.still = count(self.still, is_still);
        self.partial = count(self.partial, is_still && is_partial);
        self.stalled = count(self.stalled, activity.is_stalled.load(Ordering::Relaxed));
        if self.stalled >= self.max.write
            || self.partial >= self.max.head
            || is_busy && self.still >= self.max.request
        {
            return BeatResult::Cut;
        }
        if !is_busy && self.still >= self.max.idle { BeatResult::Close } else { BeatResult::Keep }
    }
}

fn count(beats: u32, goes_on: bool) -> u32 {
    if goes_on { beats.saturating_add(1) } else { 0 }
}

#[cfg(test)]
mod tests;
