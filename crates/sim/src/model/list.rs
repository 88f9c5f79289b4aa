//! Algorithms that are derived from a list of all admissions.

use super::{Model, TickQuota};

/// Stores every admission as tick and units, in order, and counts the list again for every
/// operation.
#[derive(Debug, Clone)]
pub struct ListModel {
    counting: Counting,
    entries: Vec<(u64, u64)>,
}

/// The rule by which admissions count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// The exact log: a unit recorded at `t` counts while `now - window < t`.
    Log,
    /// The current aligned window, and the share of the previous one that a sliding window still
    /// covers, rounded up.
    Counter,
    /// A window is divided into this many segments aligned to the epoch. A segment counts in full
    /// until its last tick has left the window.
    Segments(u64),
    /// The current aligned window.
    Fixed,
}

/// The share of an admission that counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Whole,
    /// The share of the previous aligned window that the sliding window covers.
    Covered,
    Nothing,
}

/// The maximum number of units of one entry above the limit.
const UNITS_MAX: u64 = (1 << 53) - 1;

impl ListModel {
    /// Creates an empty list.
    pub fn new(counting: Counting) -> Self {
        Self { counting, entries: Vec::new() }
    }

    fn share(&self, quota: TickQuota, now: u64, at: u64) -> Share {
        let is_inside = |tick: u64| i128::from(now) - i128::from(quota.window) < tick.into();
        let windows_ago = || (now / quota.window).checked_sub(at / quota.window);
        let counts = match self.counting {
            Counting::Log => is_inside(at),
            Counting::Segments(count) => {
                let length = quota.window.div_ceil(count);
                is_inside((at / length + 1) * length - 1)
            }
            Counting::Counter if windows_ago() == Some(1) => return Share::Covered,
            Counting::Counter | Counting::Fixed => windows_ago() == Some(0),
        };
        if counts { Share::Whole } else { Share::Nothing }
    }

    fn is_known(&self, quotas: &[TickQuota], now: u64, at: u64) -> bool {
        quotas.iter().any(|quota| self.share(*quota, now, at) != Share::Nothing)
    }
}

impl Model for ListModel {
    fn counted(&self, _place: usize, quota: TickQuota, now: u64) -> u128 {
        let (mut whole, mut covered) = (0, 0);
        for (at, units) in &self.entries {
            match self.share(quota, now, *at) {
                Share::Whole => whole += u128::from(*units),
                Share::Covered => covered += u128::from(*units),
                Share::Nothing => {}
            }
        }
        let ticks_covered = u128::from(quota.window - now % quota.window);
        whole + (covered * ticks_covered).div_ceil(quota.window.into())
    }

    fn record(&mut self, _quotas: &[TickQuota], at: u64, units: u64) {
        match self.entries.last_mut() {
            Some((last, sum)) if *last == at => *sum = sum.saturating_add(units),
            _ => self.entries.push((at, units)),
        }
    }

    fn charge(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) {
        let longest = quotas.iter().map(|quota| quota.window).max();
        let quota = quotas.iter().find(|quota| Some(quota.window) == longest);
        let newest = self.entries.last().copied();
        let (Counting::Log, Some(quota), Some((last, joined))) = (self.counting, quota, newest)
        else {
            return self.record(quotas, at, units);
        };
        let counts = |at: u64| self.share(*quota, now, at) == Share::Whole;
        let before = self.entries.iter().filter(|(at, _)| *at != last && counts(*at));
        let before: u128 = before.map(|(_, units)| u128::from(*units)).sum();
        if !counts(last) || before < u128::from(quota.limit.max(1)) {
            return self.record(quotas, at, units);
        }
        self.entries.pop();
        self.record(quotas, at.max(last), (units + joined).min(UNITS_MAX));
    }

    fn give_back(&mut self, quotas: &[TickQuota], now: u64, at: u64, units: u64) -> u64 {
        let mut left = if self.is_known(quotas, now, at) { units } else { return 0 };
        for (_, admitted) in self.entries.iter_mut().filter(|(dated, _)| *dated == at) {
            let back = left.min(*admitted);
            *admitted -= back;
            left -= back;
        }
        self.entries.retain(|(_, units)| *units > 0);
        units - left
    }

    fn events(&self, quotas: &[TickQuota], now: u64) -> Option<Vec<(u64, u64)>> {
        if self.counting != Counting::Log {
            return None;
        }
        let mut events = self.entries.clone();
        events.retain(|(at, _)| self.is_known(quotas, now, *at));
        events.sort_unstable();
        Some(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_the_worked_example() {
        let hour = TickQuota { limit: 100, window: 60 * 60_000 };
        let mut model = ListModel::new(Counting::Counter);
        model.record(&[hour], 1, 70);
        model.record(&[hour], hour.window, 40);
        // 37.5 of 60 minutes have elapsed: 40 + 70 * 22.5 / 60 = 66.25.
        let now = hour.window + 37 * 60_000 + 30_000;
        assert_eq!(model.counted(0, hour, now), 67);
    }
}
