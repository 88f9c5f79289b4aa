//! A cycle counter read as a clock that never runs ahead.
//!
//! Reading the processor's cycle counter takes a third of the time that `Instant::now` takes. On
//! its own it is no clock: it drifts, it may stop or jump when a machine sleeps or moves. So it
//! only fills the gaps between two readings of the true clock:
//!
//! * its rate is measured against the true clock and then set 0.11 % low: the system may slew the
//!   true clock by 0.05 % one way while it is measured and the other way afterwards, so it lags and
//!   never leads;
//! * every 25 ms it is set again, so that it lags by at most [`LAG`];
//! * when a reading does not agree with the true clock, it is not used any more.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter, and the true clock it is measured against.
pub(crate) trait Source {
    /// Cycles since some moment.
    fn count(&self) -> u64;
    /// The true time in nanoseconds.
    fn nanos(&self) -> u64;
}

/// The most nanoseconds by which a reading lags behind the true clock.
pub(crate) const LAG: u64 = 100_000;

/// How long the counter runs on its own: 25 ms at (0.11 + 0.10 + 0.01) % is 55 us, within `LAG`.
const INTERVAL: u64 = 25_000_000;
/// How long the rate is measured before it is used.
const WARM_UP: u64 = 200_000_000;
/// The longest interruption between the readings of both clocks that is accepted.
const TEAR: u64 = 15_000;
const _: () = assert!(INTERVAL / 10_000 * 22 + 2 * TEAR < LAG);
// A tear makes the rate wrong by less than the 0.01 % by which it is set lower than it needs to be.
const _: () = assert!(TEAR * 10_000 < WARM_UP);

/// A counter that is kept in step with the true clock.
#[derive(Debug)]
pub(crate) struct CycleClock<S> {
    source: S,
    /// Units of four nanoseconds a cycle, times 2^64; fixed once measured.
    rate: AtomicU64,
    /// Cycles the counter may run on its own; zero while it must not be used.
    interval: AtomicU64,
    /// What to add to the scaled count. Written before `set_at`, so that a reader of a new `set_at`
    /// sees an offset at least as new.
    offset: AtomicU64,
    /// The count at which the offset was set.
    set_at: AtomicU64,
    /// Whether the counter is no clock here, for good.
    is_refused: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    /// Every attempt to read both clocks was interrupted so far.
    New,
    Measuring(Pair),
    Running(Pair),
    Refused,
}

/// Both clocks, read at about the same moment.
#[derive(Debug, Clone, Copy)]
struct Pair {
    count: u64,
    nanos: u64,
}

impl<S: Source> CycleClock<S> {
    pub(crate) fn new(source: S) -> Self {
        let state = pair(&source).map_or(State::New, State::Measuring);
        Self {
            source,
            rate: AtomicU64::new(0),
            interval: AtomicU64::new(0),
            offset: AtomicU64::new(0),
            set_at: AtomicU64::new(0),
            is_refused: AtomicBool::new(false),
            state: Mutex::new(state),
        }
    }

    #[cfg(test)]
    pub(crate) fn now(&self) -> u64 {
        self.count().map_or_else(|nanos| nanos, |count| self.nanos(count))
    }

    /// The count, where [`nanos`](Self::nanos) can make a time of it; else the true time.
    #[inline]
    pub(crate) fn count(&self) -> Result<u64, u64> {
        let count = self.source.count();
        let since = count.wrapping_sub(self.set_at.load(Ordering::Acquire));
        if since < self.interval.load(Ordering::Acquire) { Ok(count) } else { Err(self.set()) }
    }

    /// The time of a count. If the counter was set again since, it may be a little later than
    /// when the count was taken, but never later than now: it is reckoned back from the setting.
    #[inline]
    pub(crate) fn nanos(&self, count: u64) -> u64 {
        self.scaled(count).wrapping_add(self.offset.load(Ordering::Relaxed))
    }

    #[cfg(test)]
    pub(crate) fn source(&self) -> &S {
        &self.source
    }

    #[inline]
    fn scaled(&self, count: u64) -> u64 {
        let wide = u128::from(count) * u128::from(self.rate.load(Ordering::Relaxed));
        // The upper word as it is, which is cheaper than any other part of it.
        ((wide >> 64) as u64).wrapping_mul(4)
    }

    /// Reads the true clock, and sets the counter by it unless another thread is at it.
    #[cold]
    fn set(&self) -> u64 {
        if self.is_refused.load(Ordering::Relaxed) {
            return self.source.nanos();
        }
        let Some(mut state) = self.state.try_lock() else {
            return self.source.nanos();
        };
        let Some(pair) = pair(&self.source) else {
            return self.source.nanos();
        };
        match *state {
            State::New => *state = State::Measuring(pair),
            State::Measuring(start) if pair.nanos.saturating_sub(start.nanos) < WARM_UP => {}
            State::Measuring(start) => match measure(start, pair) {
                Some((rate, interval)) => {
                    self.rate.store(rate, Ordering::Relaxed);
                    self.step(pair);
                    self.interval.store(interval, Ordering::Release);
                    *state = State::Running(pair);
                }
                None => self.refuse(&mut state),
            },
            State::Running(last) if self.agrees(last, pair) => {
                self.step(pair);
                *state = State::Running(pair);
            }
            State::Running(_) | State::Refused => self.refuse(&mut state),
        }
        pair.nanos
    }

    fn refuse(&self, state: &mut State) {
        self.interval.store(0, Ordering::Release);
        self.is_refused.store(true, Ordering::Relaxed);
        *state = State::Refused;
    }

    fn step(&self, pair: Pair) {
        self.offset.store(pair.nanos.wrapping_sub(self.scaled(pair.count)), Ordering::Relaxed);
        self.set_at.store(pair.count, Ordering::Release);
    }

    /// Whether the counter, run on from `last`, shows what the true clock shows, or a little less.
    fn agrees(&self, last: Pair, now: Pair) -> bool {
        let counted = self.scaled(now.count).wrapping_sub(self.scaled(last.count));
        let passed = now.nanos.saturating_sub(last.nanos);
        counted <= passed + TEAR && passed - counted.min(passed) <= passed / 400 + TEAR
    }
}

/// Both clocks at one moment. Returns `None` if every attempt was interrupted.
fn pair(source: &impl Source) -> Option<Pair> {
    for _ in 0..4 {
        let before = source.nanos();
        let count = source.count();
        if source.nanos().saturating_sub(before) < TEAR {
            return Some(Pair { count, nanos: before });
        }
    }
    None
}

/// The rate, set low, and the cycles in an interval; none of a counter that went back, or is slower
/// than 250 MHz.
fn measure(start: Pair, now: Pair) -> Option<(u64, u64)> {
    let nanos = now.nanos.checked_sub(start.nanos)?;
    let cycles = now.count.checked_sub(start.count).filter(|cycles| *cycles > nanos / 4)?;
    let exact = (u128::from(nanos) << 62) / u128::from(cycles);
    let rate = u64::try_from(exact - exact * 11 / 10_000).ok()?;
    let interval = u128::from(INTERVAL) * u128::from(cycles) / u128::from(nanos);
    Some((rate, u64::try_from(interval).ok()?))
}

#[cfg(test)]
mod tests;
