//! Ticks: stored time, rounded so that a limit is never exceeded.

use core::time::Duration;

use crate::error::{Error, ErrorKind};

/// The current time of a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The last tick that has certainly started. Expiry is decided with it.
    pub(crate) now: u64,
    /// The first tick that had certainly not started before the request. Units are recorded at it.
    pub(crate) date: u64,
}

/// Converts nanoseconds to ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TickScale {
    nanos: u64,
    /// `2^(64 + shift) / nanos`, rounded up: a division becomes a multiplication, which takes a
    /// twentieth of the time.
    reciprocal: u64,
    shift: u32,
    /// The lag of the clock plus a tick minus a nanosecond: adding it turns rounding down into
    /// rounding up.
    ceiling: u64,
    /// Nanoseconds by which stored time is ahead of the clock, in whole ticks. Zero unless the
    /// limiter was restored after the wall clock had gone back.
    ahead: u64,
}

const TICK_MIN: u64 = 100_000;
const TICK_MAX: u64 = 1_000_000_000;

/// The number of bits of a tick: enough for any time that a clock can return and ten years more.
pub(crate) const TICK_BITS: u32 = 48;
const _: () = assert!(u64::MAX / TICK_MIN + 10 * 366 * 86_400 * 10_000 < 1 << TICK_BITS);

impl TickScale {
    pub(crate) fn new(tick: Duration) -> Result<Self, Error> {
        match u64::try_from(tick.as_nanos()) {
            Ok(nanos) if (TICK_MIN..=TICK_MAX).contains(&nanos) => {
                // Exact below 2^62, because the error, below one in 2^(64 + shift), is then less
                // than one part of `nanos`.
                let shift = nanos.ilog2() - 1;
                let reciprocal = (1u128 << (64 + shift)).div_ceil(u128::from(nanos));
                let reciprocal = u64::try_from(reciprocal).unwrap_or(u64::MAX);
                Ok(Self { nanos, reciprocal, shift, ceiling: nanos - 1, ahead: 0 })
            }
            _ => Err(Error::out_of_range(
                ErrorKind::Setting,
                "tick",
                format_args!("{tick:?}"),
                "100 microseconds to 1 second",
            )),
        }
    }

    /// Returns the same scale for a clock that may lag by `lag` nanoseconds.
    pub(crate) fn with_lag(self, lag: u64) -> Self {
        Self { ceiling: lag.min(LAG_MAX) + self.nanos - 1, ..self }
    }

    /// Returns the same scale, with stored time `ticks` ahead of the clock.
    pub(crate) fn ahead_by(self, ticks: u64) -> Self {
        Self { ahead: self.nanos(ticks), ..self }
    }

    /// Returns the latest tick that a clock can return.
    pub(crate) fn latest(&self) -> u64 {
        self.divide(NANOS_MAX)
    }

    /// Converts a clock reading of at most [`NANOS_MAX`]: `now` is rounded down, and `date`, which
    /// includes the clock's lag, is rounded up.
    #[inline]
    pub(crate) fn moment(&self, nanos: u64) -> Moment {
        let nanos = nanos + self.ahead;
        Moment { now: self.divide(nanos), date: self.divide(nanos + self.ceiling) }
    }

    /// Converts a window to ticks, rounded up: a unit never counts for less than the window.
    pub(crate) fn window(&self, window: Duration) -> u64 {
        let ticks = window.as_nanos().div_ceil(u128::from(self.nanos));
        u64::try_from(ticks).unwrap_or(u64::MAX).clamp(1, 1 << (TICK_BITS - 1))
    }

    /// Converts ticks to nanoseconds, at most 584 years. `u64::MAX`, which means never, is
    /// unchanged.
    #[inline]
    pub(crate) fn nanos(&self, ticks: u64) -> u64 {
        match ticks.checked_mul(self.nanos) {
            Some(nanos) => nanos,
            None if ticks == u64::MAX => u64::MAX,
            None => u64::MAX - 1,
        }
    }

    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        Duration::from_nanos(self.nanos(ticks))
    }

    /// Returns the time since the Unix epoch, on the clock, at which a tick starts.
    pub(crate) fn since_epoch(&self, tick: u64) -> Duration {
        Duration::from_nanos(self.nanos(tick).saturating_sub(self.ahead))
    }

    pub(crate) fn tick_nanos(&self) -> u64 {
        self.nanos
    }

    #[inline]
    fn divide(&self, nanos: u64) -> u64 {
        let wide = u128::from(nanos) * u128::from(self.reciprocal);
        (wide >> 64) as u64 >> self.shift
    }
}

/// The largest time that is divided exactly.
const EXACT_MAX: u64 = (1 << 62) - 1;

/// More than any clock lags: thirteen days.
const LAG_MAX: u64 = 1 << 50;

/// The latest time, in the year 2116. Later readings are clamped to it.
pub(crate) const NANOS_MAX: u64 = EXACT_MAX + 1 - LAG_MAX - TICK_MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // A quotient that is off by one would move every expiry by a tick.
        #[test]
        fn divides_exactly(nanos: u64, tick in TICK_MIN..=TICK_MAX) {
            let scale = TickScale::new(Duration::from_nanos(tick)).unwrap();
            let nanos = nanos.min(EXACT_MAX);
            prop_assert_eq!(scale.divide(nanos), nanos / tick);
            for near in [nanos / tick * tick, (nanos / tick * tick).saturating_sub(1)] {
                prop_assert_eq!(scale.divide(near), near / tick);
            }
        }

        #[test]
        fn records_rounded_up_and_decides_rounded_down(nanos in 0..NANOS_MAX, lag in 0u64..LAG_MAX) {
            let scale = TickScale::new(Duration::from_millis(1)).unwrap();
            let moment = scale.with_lag(lag).moment(nanos);
            prop_assert_eq!(moment.now, nanos / 1_000_000);
            prop_assert_eq!(moment.date, (nanos + lag).div_ceil(1_000_000));
        }
    }

    #[test]
    fn rounds_a_window_up() {
        let scale = TickScale::new(Duration::from_millis(10)).unwrap();
        assert_eq!(scale.window(Duration::from_millis(11)), 2);
        assert_eq!(scale.window(Duration::from_nanos(1)), 1);
    }
}
