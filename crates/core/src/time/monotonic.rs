//! The default clock.

use core::time::Duration;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use super::Clock;
use super::any::Reading;
use super::cycle_clock::{CycleClock, LAG, Source};
use super::tick::NANOS_MAX;

/// Monotonic time, anchored once to the Unix epoch.
///
/// Wall time is read once, at the start; a step of the wall clock afterwards changes nothing. On
/// Linux, a snapshot that is restored before the machine is restarted is aged by the time since
/// boot, so that a wall clock that was set meanwhile changes nothing either.
///
/// On Linux on x86-64, when the kernel itself keeps time by the processor's cycle counter, the
/// time between two readings of the monotonic clock is filled in from that counter: about 12 ns a
/// reading instead of 30. Such a reading lags by at most 100 us, which
/// [`lag`](Clock::lag) says and the dates of entries make up for. Elsewhere it is
/// `Instant::now`.
///
/// The system's coarse clock would be cheaper still, but promises nothing: measured on a loaded
/// two-core virtual machine it lagged by up to 14 ms with a stated resolution of 4 ms.
#[derive(Debug)]
pub struct MonotonicClock {
    kind: Kind,
}

#[derive(Debug)]
#[cfg_attr(
    not(all(target_os = "linux", target_arch = "x86_64", not(miri))),
    expect(dead_code, reason = "only x86-64 has the counter")
)]
enum Kind {
    Cycles(CycleClock<Cycles>),
    Instant(Anchor),
}

impl MonotonicClock {
    /// Returns the best clock of this machine.
    pub fn new() -> Self {
        let anchor = Anchor::new();
        let kind = if cycles::is_trusted() {
            Kind::Cycles(CycleClock::new(Cycles(anchor)))
        } else {
            Kind::Instant(anchor)
        };
        Self { kind }
    }

    /// Returns a clock of the same kind that shows `since_epoch` now, whatever the wall clock
    /// shows.
    pub(crate) fn starting_at(&self, since_epoch: Duration) -> Self {
        let anchor = Anchor { since_epoch, ..Anchor::new() };
        let kind = match self.kind {
            Kind::Cycles(_) => Kind::Cycles(CycleClock::new(Cycles(anchor))),
            Kind::Instant(_) => Kind::Instant(anchor),
        };
        Self { kind }
    }

    /// Returns a clock with `Instant::now` on any machine: without lag, but about 30 ns per
    /// reading.
    pub fn precise() -> Self {
        Self { kind: Kind::Instant(Anchor::new()) }
    }

    #[inline]
    pub(super) fn read(&self) -> Reading<'_> {
        match &self.kind {
            Kind::Cycles(counter) => match counter.count() {
                Ok(count) => Reading::Count(counter, count),
                Err(nanos) => Reading::Nanos(nanos.min(NANOS_MAX)),
            },
            Kind::Instant(anchor) => Reading::Nanos(anchor.nanos().min(NANOS_MAX)),
        }
    }
}

impl Default for MonotonicClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> u64 {
        self.read().nanos()
    }

    fn lag(&self) -> u64 {
        match &self.kind {
            Kind::Cycles(_) => LAG,
            Kind::Instant(_) => 0,
        }
    }
}

/// The time at which monotonic and wall time were read together.
#[derive(Debug, Clone, Copy)]
struct Anchor {
    start: Instant,
    since_epoch: Duration,
}

impl Anchor {
    #[expect(clippy::disallowed_methods, reason = "this is the clock")]
    fn new() -> Self {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { start: Instant::now(), since_epoch }
    }

    fn nanos(&self) -> u64 {
        let time = self.since_epoch.saturating_add(self.start.elapsed());
        u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
    }
}

/// The processor's cycles, with `Instant` as the system clock.
#[derive(Debug)]
pub(crate) struct Cycles(Anchor);

impl Source for Cycles {
    #[inline]
    fn count(&self) -> u64 {
        cycles::read()
    }

    fn nanos(&self) -> u64 {
        self.0.nanos()
    }
}

#[cfg(all(target_os = "linux", target_arch = "x86_64", not(miri)))]
mod cycles {
    /// Returns `true` if the kernel uses this counter as its clock source. Only then has it checked
    /// that the counter runs evenly and is synchronized between processors.
    pub(super) fn is_trusted() -> bool {
        const CHOSEN: &str = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
        std::fs::read_to_string(CHOSEN).is_ok_and(|name| name.trim() == "tsc")
    }

    #[inline]
    #[expect(
        unsafe_code,
        reason = "the standard library has no safe function for this instruction"
    )]
    pub(super) fn read() -> u64 {
        // SAFETY: `rdtsc` reads a register and accesses no memory. Every x86-64 processor has it,
        // and a kernel that uses it as its clock source (`is_trusted`) lets user code read it.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
}

#[cfg(not(all(target_os = "linux", target_arch = "x86_64", not(miri))))]
mod cycles {
    pub(super) fn is_trusted() -> bool {
        false
    }

    pub(super) fn read() -> u64 {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The default clock must stay within its stated lag of the precise one, also across threads. If
    // the kernel does not use the cycle counter, the default is the precise clock.
    #[test]
    fn stays_within_its_lag() {
        let clock = MonotonicClock::new();
        assert_eq!(matches!(clock.kind, Kind::Cycles(_)), cycles::is_trusted());
        let precise = || match &clock.kind {
            Kind::Cycles(counter) => counter.source().nanos(),
            Kind::Instant(anchor) => anchor.nanos(),
        };
        let end = precise() + 300_000_000;
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    while clock.now() < end {
                        let before = precise();
                        let shown = clock.now();
                        let after = precise();
                        assert!(shown <= after, "{shown} is ahead of {after}");
                        assert!(shown + clock.lag() >= before, "{shown} lags behind {before}");
                    }
                });
            }
        });
    }
}
