//! The quotas of a policy or a tier, encoded for a script.

use core::time::Duration;

use slidegate::{Algorithm, Error, ErrorKind, Policy, Quota};

use super::ScriptKind;

/// Quotas in ticks with the algorithm and its parameter, packed once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ScriptLimits {
    kind: ScriptKind,
    /// The limit of every quota.
    pub(super) limits: Vec<u64>,
    tick: Duration,
    /// The longest window of the quotas.
    window: Duration,
    /// Whether there is one quota without longer retention, so that the fast path can decide.
    pub(super) is_simple: bool,
    /// Tick, first quota and parameter: the bytes of the argument before those of the operation.
    pub(super) front: Vec<u8>,
    /// Algorithm, number of quotas, ticks to keep entries for, and the other quotas.
    pub(super) back: Vec<u8>,
}

/// The maximum number of ticks: enough for the longest window in ticks of 100 microseconds.
const TICKS_MAX: u64 = (1 << 47) - 1;

/// The position of the retention ticks in `back`.
const KEEP: core::ops::Range<usize> = 2..8;

impl ScriptLimits {
    /// Creates limits of one to eight quotas. `keep` is the longest window of the policy and its
    /// tiers, for which entries are kept.
    ///
    /// # Errors
    ///
    /// Returns an error if there is no quota or more than eight, or the tick is not a whole number
    /// of microseconds from 100 microseconds to 1 second.
    pub(crate) fn new(
        quotas: &[Quota],
        algorithm: Algorithm,
        tick: Duration,
        keep: Duration,
    ) -> Result<Self, Error> {
        let tick_us = tick_micros(tick)?;
        if !(1..=Policy::QUOTAS_MAX).contains(&quotas.len()) {
            let message = format!("number of quotas {} is out of range: use 1 to 8", quotas.len());
            return Err(Error::new(ErrorKind::Policy, message));
        }
        let (kind, number, parameter) = match algorithm {
            // Beyond it, neighboring entries are merged, so that no key blocks the server for long.
            Algorithm::Log => (ScriptKind::Log, b'L', Algorithm::LOG_BYTES_MAX),
            Algorithm::LogCapped { bytes_max } => (ScriptKind::Log, b'L', bytes_max),
            Algorithm::Counter => (ScriptKind::Counter, b'C', 0),
            Algorithm::Segments { count } => (ScriptKind::Segments, b'S', count.into()),
            Algorithm::Gcra => (ScriptKind::Gcra, b'G', 0),
            Algorithm::Fixed => (ScriptKind::Fixed, b'F', 0),
        };
        let windows = quotas.iter().map(|quota| ticks_up(quota.window(), tick));
        let keep = windows.clone().fold(ticks_up(keep, tick), u64::max);
        let is_simple = quotas.len() == 1 && windows.clone().eq([keep]);
        let mut front = tick_us.to_le_bytes().to_vec();
        let mut back = vec![number, u8::try_from(quotas.len()).unwrap_or(u8::MAX)];
        back.extend_from_slice(&keep.to_le_bytes()[..6]);
        for (place, (quota, window)) in quotas.iter().zip(windows).enumerate() {
            let bytes = if place == 0 { &mut front } else { &mut back };
            bytes.extend_from_slice(&quota.limit().to_le_bytes()[..7]);
            bytes.extend_from_slice(&window.to_le_bytes()[..6]);
        }
        front.extend_from_slice(&parameter.to_le_bytes());
        let limits = quotas.iter().map(Quota::limit).collect();
        let window = quotas.iter().map(Quota::window).max().unwrap_or_default();
        Ok(Self { kind, limits, tick, window, is_simple, front, back })
    }

    /// The script of the algorithm.
    pub(crate) fn kind(&self) -> ScriptKind {
        self.kind
    }

    /// The longest window of the quotas.
    pub(crate) fn window(&self) -> Duration {
        self.window
    }

    /// Returns the lowest limit of all quotas.
    pub(crate) fn least_limit(&self) -> u64 {
        self.limits.iter().copied().min().unwrap_or(0)
    }

    /// Returns the same limits, with entries kept for `keep` if that is longer.
    pub(crate) fn keeping(&self, keep: Duration) -> Self {
        let mut keeping = self.clone();
        let mut before = [0; 8];
        before[..6].copy_from_slice(&self.back[KEEP]);
        let (before, keep) = (u64::from_le_bytes(before), ticks_up(keep, self.tick));
        if keep > before {
            keeping.back[KEEP].copy_from_slice(&keep.to_le_bytes()[..6]);
            keeping.is_simple = false;
        }
        keeping
    }

    /// Returns `true` if both decide identically, regardless of retention.
    pub(crate) fn decides_like(&self, other: &Self) -> bool {
        let (ours, theirs) = (&self.back, &other.back);
        self.front == other.front
            && ours[..KEEP.start] == theirs[..KEEP.start]
            && ours[KEEP.end..] == theirs[KEEP.end..]
    }

    /// Converts ticks to a duration of at most about 584 thousand years.
    pub(crate) fn duration(&self, ticks: u64) -> Duration {
        let micros = u64::try_from(self.tick.as_micros()).unwrap_or(u64::MAX);
        Duration::from_micros(ticks.saturating_mul(micros))
    }

    /// Returns the time since the start of the tick.
    pub(crate) fn within_tick(&self, time: Duration) -> Duration {
        let nanos = time.as_nanos() % self.tick.as_nanos().max(1);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Converts a duration to ticks, rounded up.
    pub(super) fn ticks(&self, duration: Duration) -> u64 {
        ticks_up(duration, self.tick)
    }

    /// Converts a duration to ticks, rounded down.
    pub(super) fn ticks_down(&self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() / self.tick.as_nanos().max(1);
        u64::try_from(ticks).map_or(TICKS_MAX, |ticks| ticks.min(TICKS_MAX))
    }
}

fn tick_micros(tick: Duration) -> Result<u32, Error> {
    let whole = tick.subsec_nanos().is_multiple_of(1000);
    match u32::try_from(tick.as_micros()) {
        Ok(micros @ 100..=1_000_000) if whole => Ok(micros),
        _ => {
            let message = format!(
                "tick {tick:?} is out of range: use whole microseconds, 100 microseconds to 1 second"
            );
            Err(Error::new(ErrorKind::Setting, message))
        }
    }
}

/// Rounds up: a unit never counts for less than its window.
fn ticks_up(duration: Duration, tick: Duration) -> u64 {
    let ticks = duration.as_nanos().div_ceil(tick.as_nanos().max(1));
    u64::try_from(ticks).unwrap_or(u64::MAX).clamp(1, TICKS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_quota_is_an_error_of_the_policy() {
        let tick = Duration::from_millis(1);
        let error = ScriptLimits::new(&[], Algorithm::Log, tick, tick).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Policy);
    }
}
