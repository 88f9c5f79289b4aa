//! A cycle counter that is used as a clock and never runs ahead.
//!
//! Reading the processor's cycle counter takes a third of the time of `Instant::now`. Alone, it is
//! not a clock: it drifts, and it may stop or jump when a machine is suspended or migrated. So it
//! only interpolates between readings of the system's monotonic clock:
//!
//! * Its rate is measured against the system clock and then set 0.11 % low. The system may slew its
//!   clock by 0.05 % in one direction during the measurement and in the other afterwards, so the
//!   counter lags and never leads.
//! * It is synchronized every 25 ms, so that it lags by at most [`LAG`].
//! * If a reading does not agree with the system clock, the counter is no longer used.

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A counter, and the system clock that it is measured against.
pub(crate) trait Source {
    /// Returns the cycles since an arbitrary time.
    fn count(&self) -> u64;
    /// Returns the system time in nanoseconds.
    fn nanos(&self) -> u64;
}

/// The maximum number of nanoseconds by which a reading lags behind the system clock.
pub(crate) const LAG: u64 = 100_000;

/// The time between synchronizations: 25 ms at (0.11 + 0.10 + 0.01) % is 55 us, within `LAG`.
const INTERVAL: u64 = 25_000_000;
/// The duration of the measurement of the rate.
const WARM_UP: u64 = 200_000_000;
/// The longest accepted interruption between the readings of both clocks.
const TEAR: u64 = 15_000;
const _: () = assert!(INTERVAL / 10_000 * 22 + 2 * TEAR < LAG);
// An interruption makes the rate wrong by less than 0.01 %, which is included in the margin.
const _: () = assert!(TEAR * 10_000 < WARM_UP);

/// A counter that is synchronized with the system clock.
#[derive(Debug)]
pub(crate) struct CycleClock<S> {
    source: S,
    /// Units of four nanoseconds per cycle, times 2^64. Constant once measured.
    rate: AtomicU64,
    /// The number of cycles between synchronizations. Zero while the counter must not be used.
    interval: AtomicU64,
    /// The offset of the scaled count. Written before `set_at`, so that a reader of a new `set_at`
    /// sees an offset that is at least as new.
    offset: AtomicU64,
    /// The count at the last synchronization.
    set_at: AtomicU64,
    /// Whether the counter cannot be used as a clock on this machine.
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

/// Both clocks, read at about the same time.
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

    /// Returns the count, if [`nanos`](Self::nanos) can convert it, otherwise the system time.
    #[inline]
    pub(crate) fn count(&self) -> Result<u64, u64> {
        let count = self.source.count();
        let since = count.wrapping_sub(self.set_at.load(Ordering::Acquire));
        if since < self.interval.load(Ordering::Acquire) { Ok(count) } else { Err(self.set()) }
    }

    /// Returns the time of a count. If the counter was synchronized since, the result may be
    /// slightly later than when the count was taken, but never later than now: it is calculated
    /// back from the synchronization.
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
        // The upper word needs no shift.
        ((wide >> 64) as u64).wrapping_mul(4)
    }

    /// Reads the system clock, and synchronizes the counter unless another thread does.
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

    /// Returns `true` if the counter, extrapolated from `last`, agrees with the system clock or is
    /// slightly behind.
    fn agrees(&self, last: Pair, now: Pair) -> bool {
        let counted = self.scaled(now.count).wrapping_sub(self.scaled(last.count));
        let passed = now.nanos.saturating_sub(last.nanos);
        counted <= passed + TEAR && passed - counted.min(passed) <= passed / 400 + TEAR
    }
}

/// Reads both clocks at one time. Returns `None` if every attempt was interrupted.
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

/// Returns the lowered rate and the cycles per interval. Returns `None` for a counter that went
/// back or is slower than 250 MHz.
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
