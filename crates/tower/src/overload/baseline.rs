//! How many requests usually arrive.

/// A moving average of arrivals in an interval, exponentially weighted.
///
/// Time is an argument. Numbers are in parts of 2^16 of a request; divisions round down, which
/// makes the average at most one part too small.
#[derive(Debug, Clone)]
pub(super) struct Baseline {
    /// Nanoseconds.
    interval: u64,
    /// Each interval moves the average by its difference over this.
    weight: u64,
    /// Intervals of plain averaging before the average is relied on.
    warm_up: u64,
    /// How far above the average an interval may pull it, in per cent of it.
    percent: u64,
    /// The least that the average is taken for, in parts.
    floor: u64,
    start: Option<u64>,
    arrivals: u64,
    /// Intervals that are over.
    seen: u64,
    level: u64,
}

/// Parts of a request.
const PARTS: u64 = 1 << 16;

/// After so many intervals without a request nothing is left of the average.
const IDLE_MAX: u64 = 1024;

/// An interval with more arrivals than this reads as this: keeps every product in range.
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

    /// Notes a request. Time that goes back stands still.
    pub(super) fn arrive(&mut self, now: u64) {
        self.advance(now);
        self.arrivals = (self.arrivals + 1).min(ARRIVALS_MAX);
    }

    /// Ends the intervals that are over by `now`.
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
            // A flood must not teach us that floods are usual: it moves the average by no more
            // than what is allowed does.
            let sample = sample.min(self.allowed());
            self.level = moved(self.level, sample, self.weight);
        } else {
            self.level = moved(self.level, sample, self.seen + 1);
        }
        self.seen = self.seen.saturating_add(1);
    }

    /// Whether enough intervals were seen to rely on the average.
    pub(super) fn is_warm(&self) -> bool {
        self.seen >= self.warm_up
    }

    /// The average in an interval, in parts; not below the floor.
    fn level(&self) -> u64 {
        self.level.max(self.floor)
    }

    /// What an interval may have, in parts: at least one request.
    fn allowed(&self) -> u64 {
        let allowed = u128::from(self.level()) * u128::from(self.percent) / 100;
        u64::try_from(allowed).unwrap_or(u64::MAX).max(PARTS)
    }

    /// Nanoseconds from one request to the next at the rate that is allowed, rounded up: no more
    /// than allowed pass.
    pub(super) fn period(&self) -> u64 {
        let parts = u128::from(self.interval) * u128::from(PARTS);
        u64::try_from(parts.div_ceil(u128::from(self.allowed()))).unwrap_or(u64::MAX)
    }

    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    /// The average in an interval, in whole requests, rounded to the nearest.
    pub(super) fn arrivals(&self) -> u64 {
        (self.level() + PARTS / 2) / PARTS
    }
}

/// `level`, moved towards `sample` by the `weight`-th part of their difference.
fn moved(level: u64, sample: u64, weight: u64) -> u64 {
    if sample >= level {
        level + (sample - level) / weight
    } else {
        level - (level - sample).div_ceil(weight)
    }
}

#[cfg(test)]
mod tests;
