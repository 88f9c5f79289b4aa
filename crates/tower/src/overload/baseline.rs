//! The usual number of requests.

/// An exponentially weighted moving average of the arrivals per interval.
///
/// Time is an argument. Numbers are in units of 2^-16 requests. Divisions round down, which makes
/// the average at most one such unit too small.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// In nanoseconds.
    interval: u64,
    /// Each interval moves the average by its difference divided by this.
    weight: u64,
    /// The number of intervals of plain averaging before the average is used.
    warm_up: u64,
    /// The maximum of an interval that counts, in percent of the average.
    percent: u64,
    /// The minimum of the average, in parts.
    floor: u64,
    start: Option<u64>,
    arrivals: u64,
    /// The number of completed intervals.
    seen: u64,
    level: u64,
}

/// The parts per request.
const PARTS: u64 = 1 << 16;

/// After this number of intervals without a request, the average is zero.
const IDLE_MAX: u64 = 1024;

/// The maximum number of arrivals of an interval. It keeps every product in range.
const ARRIVALS_MAX: u64 = 1 << 32;

impl Baseline {
    pub(super) fn new(interval: u64, weight: u64, warm_up: u64, percent: u64, floor: u64) -> Self {
        Self {
            interval: interval.max(1),
            weight: weight.max(1),
            warm_up,
            percent,
            floor: floor.min(ARRIVALS_MAX) * PARTS,
            start: None,
            arrivals: 0,
            seen: 0,
            level: 0,
        }
    }

    /// Counts a request. Time that goes back is ignored.
    pub(super) fn arrive(&mut self, now: u64) {
        self.advance(now);
        self.arrivals = (self.arrivals + 1).min(ARRIVALS_MAX);
    }

    /// Completes the intervals that ended before `now`.
    pub(super) fn advance(&mut self, now: u64) {
        let start = *self.start.get_or_insert(now);
        let over = now.saturating_sub(start) / self.interval;
        if over == 0 {
            return;
        }
        self.end(self.arrivals);
        self.arrivals = 0;
        for _ in 1..over.min(IDLE_MAX) {
            self.end(0);
        }
        if over > IDLE_MAX {
            self.level = 0;
            self.seen = self.seen.saturating_add(over - IDLE_MAX);
        }
        self.start = Some(start.saturating_add(over.saturating_mul(self.interval)));
    }

    fn end(&mut self, arrivals: u64) {
        let sample = arrivals * PARTS;
        if self.is_warm() {
            // A flood must not become the usual rate: it moves the average by no more than the
            // allowed rate does.
            let sample = sample.min(self.allowed());
            self.level = moved(self.level, sample, self.weight);
        } else {
            self.level = moved(self.level, sample, self.seen + 1);
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// Returns `true` if enough intervals were seen to use the average.
    pub(super) fn is_warm(&self) -> bool {
        self.seen >= self.warm_up
    }

    /// Returns the average per interval in parts, at least the floor.
    fn level(&self) -> u64 {
        self.level.max(self.floor)
    }

    /// Returns the allowed number per interval in parts, at least one request.
    fn allowed(&self) -> u64 {
        let allowed = u128::from(self.level()) * u128::from(self.percent) / 100;
        u64::try_from(allowed).unwrap_or(u64::MAX).max(PARTS)
    }

    /// Returns the nanoseconds between requests at the allowed rate, rounded up so that no more are
    /// allowed.
    pub(super) fn period(&self) -> u64 {
        let parts = u128::from(self.interval) * u128::from(PARTS);
        u64::try_from(parts.div_ceil(u128::from(self.allowed()))).unwrap_or(u64::MAX)
    }

    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// Returns the average per interval in whole requests, rounded to the nearest.
    pub(super) fn arrivals(&self) -> u64 {
        (self.level() + PARTS / 2) / PARTS
    }
}

/// Moves `level` towards `sample` by the `weight`-th part of their difference.
fn moved(level: u64, sample: u64, weight: u64) -> u64 {
    if sample >= level {
        level + (sample - level) / weight
    } else {
        level - (level - sample).div_ceil(weight)
    }
}

#[cfg(test)]
mod tests;
