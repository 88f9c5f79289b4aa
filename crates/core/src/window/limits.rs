//! A policy's quotas in ticks, in the form that windows use.

use super::stamp::window_tag;
use crate::policy::{Algorithm, QUOTAS_MAX};
use crate::quota::Quota;
use crate::time::TickScale;

/// A quota in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TickQuota {
    pub(crate) limit: u64,
    pub(crate) window: u64,
}

/// Values that are computed once from a quota, because a division takes a sixth of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Derived {
    /// The tag of the window, for algorithms that store it with each key.
    pub(super) window_tag: u16,
    /// The window divided by the limit, rounded up.
    pub(super) ticks_per_unit: u64,
    /// 2^64 divided by the window, less than one too small.
    reciprocal: u64,
}

impl Derived {
    fn of(quota: TickQuota) -> Self {
        Self {
            window_tag: window_tag(quota.window),
            ticks_per_unit: quota.window.div_ceil(quota.limit.max(1)),
            reciprocal: u64::MAX / quota.window,
        }
    }
}

/// One to eight quotas in ticks, with the algorithm's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    quotas: [TickQuota; QUOTAS_MAX],
    len: usize,
    longest: u64,
    /// Of the first quota.
    pub(super) derived: Derived,
    /// The number of segments per window, for `segments`.
    pub(crate) segments: u64,
    /// The maximum bytes of a log's codes, or zero for no maximum.
    pub(crate) bytes_max: usize,
}

impl Limits {
    /// Uses the first eight quotas. A policy has no more.
    pub(crate) fn new(quotas: &[Quota], algorithm: Algorithm, scale: &TickScale) -> Self {
        let mut array = [TickQuota { limit: 0, window: 1 }; QUOTAS_MAX];
        let mut longest = 1;
        for (tick_quota, quota) in array.iter_mut().zip(quotas) {
            let window = scale.window(quota.window());
            *tick_quota = TickQuota { limit: quota.limit(), window };
            longest = longest.max(window);
        }
        let (segments, bytes_max) = match algorithm {
            Algorithm::Segments { count } => (count.into(), 0),
            Algorithm::LogCapped { bytes_max } => (1, bytes_max as usize),
            Algorithm::Log | Algorithm::Counter | Algorithm::Gcra | Algorithm::Fixed => (1, 0),
        };
        let len = quotas.len().min(QUOTAS_MAX);
        Self { quotas: array, len, longest, derived: Derived::of(array[0]), segments, bytes_max }
    }

    #[inline]
    pub(crate) fn quotas(&self) -> &[TickQuota] {
        &self.quotas[..self.len]
    }

    /// Returns quota `index`, or one with a limit of zero if there are fewer.
    #[inline]
    pub(crate) fn quota(&self, index: usize) -> TickQuota {
        self.quotas[index & (QUOTAS_MAX - 1)]
    }

    #[inline]
    pub(crate) fn is_single(&self) -> bool {
        self.len == 1
    }

    /// Returns the longest window.
    pub(crate) fn longest(&self) -> u64 {
        self.longest
    }

    /// Returns the same quotas, with units kept for at least `longest` ticks.
    pub(crate) fn keeping(&self, longest: u64) -> Self {
        Self { longest: self.longest.max(longest), ..*self }
    }

    /// Returns quota `index` alone, for windows with separate state per quota.
    pub(crate) fn only(&self, index: usize) -> Self {
        let quota = self.quota(index);
        let mut only = *self;
        only.quotas[0] = quota;
        only.len = 1;
        only.longest = quota.window;
        only.derived = Derived::of(quota);
        only
    }

    /// Returns the start of the window of the first quota that contains `tick`. Windows are aligned
    /// to the epoch.
    #[inline]
    pub(super) fn window_start(&self, tick: u64) -> u64 {
        let window = self.quota(0).window;
        let product = u128::from(tick) * u128::from(self.derived.reciprocal);
        // At most one too small, for ticks below 2^48.
        let number = (product >> 64) as u64;
        let start = number * window;
        if tick - start >= window { start + window } else { start }
    }

    /// Limits in ticks of a millisecond.
    #[cfg(test)]
    pub(crate) fn of(quotas: &[(u64, u64)]) -> Self {
        use core::time::Duration;
        let quota = |&(limit, ticks)| Quota::new(limit, Duration::from_millis(ticks)).unwrap();
        let quotas: Vec<Quota> = quotas.iter().map(quota).collect();
        let scale = TickScale::new(Duration::from_millis(1)).unwrap();
        Self::new(&quotas, Algorithm::Log, &scale)
    }
}
