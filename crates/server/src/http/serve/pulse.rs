//! Whether a connection is alive, told without a clock on the way of a request.
//!
//! Requests and bytes leave marks. A beat, a few times in every timeout, looks at the marks: what
//! has stood still for as many beats as a timeout has is over it. So no request sets a timer.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use core::time::Duration;

use super::limits::ServeLimits;

/// The marks of one connection. They are read by the task that made them, or of an HTTP/2
/// connection a beat too late at worst: nothing has to be ordered.
#[derive(Debug, Default)]
pub(super) struct Marks {
    /// Requests begun and ended.
    events: AtomicU64,
    /// Requests under way.
    in_flight: AtomicU32,
    /// Bytes came and no request has begun since.
    is_partial: AtomicBool,
    /// The client does not take what is written.
    is_stalled: AtomicBool,
    is_http2: AtomicBool,
}

/// A request under way, until it is dropped.
#[derive(Debug)]
pub(super) struct Busy<'a>(&'a Marks);

impl Marks {
    #[inline]
    pub(super) fn read(&self) {
        if self.in_flight.load(Ordering::Relaxed) == 0 {
            self.is_partial.store(true, Ordering::Relaxed);
        }
    }

    #[inline]
    pub(super) fn written(&self) {
        self.is_stalled.store(false, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn stalled(&self) {
        self.is_stalled.store(true, Ordering::Relaxed);
    }

    /// A request has begun.
    #[inline]
    pub(super) fn begin(&self, is_http2: bool) -> Busy<'_> {
        if is_http2 {
            self.is_http2.store(true, Ordering::Relaxed);
        }
        self.is_partial.store(false, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.events.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }
}

impl Drop for Busy<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.0.events.fetch_add(1, Ordering::Relaxed);
    }
}

/// What to do with a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Keep,
    /// Nobody needs it: let it end in good order.
    Close,
    /// The client is too slow: end it at once.
    Cut,
}

/// Looks at the marks, beat by beat.
#[derive(Debug)]
pub(super) struct Pulse {
    events: u64,
    /// Beats since the last event.
    still: u32,
    /// Beats for which a head was not complete.
    partial: u32,
    /// Beats for which the client took nothing.
    stalled: u32,
    most: Most,
}

/// Timeouts in beats.
#[derive(Debug, Clone, Copy)]
struct Most {
    head: u32,
    request: u32,
    write: u32,
    idle: u32,
}

/// In the shortest timeout. A timeout is over between its length and a third more.
const BEATS: u32 = 4;

impl Pulse {
    pub(super) fn new(limits: &ServeLimits) -> Self {
        let beat = Self::period(limits);
        // Up, and one more: the first beat may come right after a mark was set.
        let beats = |timeout: Duration| {
            let beats = timeout.as_nanos().div_ceil(beat.as_nanos().max(1));
            u32::try_from(beats).unwrap_or(u32::MAX).saturating_add(1)
        };
        let most = Most {
            head: beats(limits.header_timeout),
            request: beats(limits.request_timeout),
            write: beats(limits.write_timeout),
            idle: beats(limits.idle_timeout),
        };
        Self { events: 0, still: 0, partial: 0, stalled: 0, most }
    }

    /// The time between two beats.
    pub(super) fn period(limits: &ServeLimits) -> Duration {
        let shortest = limits.header_timeout.min(limits.write_timeout).min(limits.idle_timeout);
        (shortest.min(limits.request_timeout) / BEATS).max(Duration::from_millis(1))
    }

    pub(super) fn beat(&mut self, marks: &Marks) -> Verdict {
        let events = marks.events.load(Ordering::Relaxed);
        let is_busy = marks.in_flight.load(Ordering::Relaxed) > 0;
        let is_partial = !is_busy
            && marks.is_partial.load(Ordering::Relaxed)
            // There, bytes may be about the connection alone.
            && !marks.is_http2.load(Ordering::Relaxed);
        let is_still = events == self.events;
        self.events = events;
        self.still = count(self.still, is_still);
        self.partial = count(self.partial, is_still && is_partial);
        self.stalled = count(self.stalled, marks.is_stalled.load(Ordering::Relaxed));
        if self.stalled >= self.most.write
            || self.partial >= self.most.head
            || is_busy && self.still >= self.most.request
        {
            return Verdict::Cut;
        }
        if !is_busy && self.still >= self.most.idle { Verdict::Close } else { Verdict::Keep }
    }
}

fn count(beats: u32, goes_on: bool) -> u32 {
    if goes_on { beats.saturating_add(1) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A beat a second.
    fn pulse() -> Pulse {
        let seconds = Duration::from_secs;
        Pulse::new(&ServeLimits {
            header_timeout: seconds(4),
            request_timeout: seconds(12),
            write_timeout: seconds(6),
            idle_timeout: seconds(20),
            ..ServeLimits::default()
        })
    }

    /// After how many beats something else than `Keep`, and what.
    fn end(pulse: &mut Pulse, marks: &Marks) -> (u32, Verdict) {
        (1..100)
            .map(|beats| (beats, pulse.beat(marks)))
            .find(|(_, verdict)| *verdict != Verdict::Keep)
            .unwrap()
    }

    #[test]
    fn every_kind_of_slowness_has_its_end() {
        let idle = Marks::default();
        assert_eq!(end(&mut pulse(), &idle), (21, Verdict::Close));
        let slow_head = Marks::default();
        slow_head.read();
        assert_eq!(end(&mut pulse(), &slow_head), (5, Verdict::Cut));
        let slow_body = Marks::default();
        let _busy = slow_body.begin(false);
        slow_body.read();
        // The beginning of the request is an event that the first beat sees.
        assert_eq!(end(&mut pulse(), &slow_body), (14, Verdict::Cut));
        let slow_reader = Marks::default();
        slow_reader.stalled();
        assert_eq!(end(&mut pulse(), &slow_reader), (7, Verdict::Cut));
    }

    #[test]
    fn who_goes_on_is_kept() {
        let (mut pulse, marks) = (pulse(), Marks::default());
        for _ in 0..100 {
            marks.read();
            drop(marks.begin(false));
            marks.stalled();
            marks.written();
            assert_eq!(pulse.beat(&marks), Verdict::Keep);
        }
    }

    // Frames of HTTP/2 that belong to no request must not look like a slow head, nor keep an idle
    // connection for ever.
    #[test]
    fn pings_are_neither_a_head_nor_a_request() {
        let (mut pulse, marks) = (pulse(), Marks::default());
        drop(marks.begin(true));
        marks.read();
        assert_eq!(end(&mut pulse, &marks), (22, Verdict::Close));
    }
}
