//! The exact limiter that algorithms are compared with.
//!
//! It decides as the [definition](crate::definition) of the log, but drops what has expired and keeps a sum, so that it
//! can follow millions of requests. It shares no code with the limiters that it is compared with.

use std::collections::VecDeque;

use crate::definition::TickQuota;

/// The units of one key that count under one quota.
#[derive(Debug, Clone, Default)]
struct ExactWindow {
    /// Tick and units, oldest first.
    entries: VecDeque<(u64, u64)>,
    units: u64,
}

impl ExactWindow {
    /// Drops what no longer counts: a unit of tick `t` counts while `now - window < t`.
    fn expire(&mut self, window: u64, now: u64) {
        while let Some(&(at, units)) = self.entries.front()
            && at.saturating_add(window) <= now
        {
            self.units -= units;
            self.entries.pop_front();
        }
    }

    fn record(&mut self, at: u64, units: u64) {
        self.units += units;
        match self.entries.back_mut() {
            Some((last, sum)) if *last == at => *sum += units,
            _ => self.entries.push_back((at, units)),
        }
    }
}

/// The units of one key that count under each quota of a policy.
#[derive(Debug, Clone, Default)]
pub struct ExactKey {
    first: ExactWindow,
    /// Those of the other quotas. Most policies have none.
    more: Vec<ExactWindow>,
}

impl ExactKey {
    /// Drops what no longer counts at `now`. Returns `true` if `cost` more units fit into every quota.
    pub fn fits(&mut self, quotas: &[TickQuota], now: u64, cost: u64) -> bool {
        if self.more.len() + 1 < quotas.len() {
            self.more.resize_with(quotas.len() - 1, ExactWindow::default);
        }
        let windows = core::iter::once(&mut self.first).chain(&mut self.more);
        let mut fits = true;
        for (window, quota) in windows.zip(quotas) {
            window.expire(quota.window, now);
            fits &= window.units.checked_add(cost).is_some_and(|units| units <= quota.limit);
        }
        fits
    }

    /// Records units, whether they fit or not.
    pub fn record(&mut self, at: u64, units: u64) {
        self.first.record(at, units);
        for window in &mut self.more {
            window.record(at, units);
        }
    }

    /// Returns the units that counted under the first quota at the last call of
    /// [`fits`](ExactKey::fits), with what was recorded since.
    pub fn units(&self) -> u64 {
        self.first.units
    }

    /// Returns the most units by which a quota is exceeded.
    pub fn excess(&self, quotas: &[TickQuota]) -> u64 {
        let windows = core::iter::once(&self.first).chain(&self.more);
        let over =
            |(window, quota): (&ExactWindow, &TickQuota)| window.units.saturating_sub(quota.limit);
        windows.zip(quotas).map(over).max().unwrap_or(0)
    }

    /// Returns the units of the quota that is exceeded most, as tick and units, the latest `count` of them.
    pub fn exceeding(&self, quotas: &[TickQuota], count: usize) -> Vec<(u64, u64)> {
        let windows = core::iter::once(&self.first).chain(&self.more);
        let over =
            |(window, quota): &(&ExactWindow, &TickQuota)| window.units.saturating_sub(quota.limit);
        let most = windows.zip(quotas).max_by_key(over);
        most.map_or_else(Vec::new, |(window, _)| {
            let skipped = window.entries.len().saturating_sub(count);
            window.entries.iter().skip(skipped).copied().collect()
        })
    }

    /// Returns `true` if nothing counts under any quota.
    pub fn is_empty(&self) -> bool {
        self.first.units == 0 && self.more.iter().all(|window| window.units == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;
    use crate::definition::{Counting, KeyState, Moment};

    #[test]
    fn decides_as_the_definition_does() {
        for seed in 0..200 {
            let mut random = Random::new(seed);
            let count = random.between(1, 3);
            let quotas: Vec<TickQuota> = (0..count)
                .map(|_| TickQuota { limit: random.between(0, 9), window: random.between(1, 30) })
                .collect();
            let longest = quotas.iter().map(|quota| quota.window).max().unwrap();
            let (mut key, mut model) = (ExactKey::default(), KeyState::new(Counting::Log, longest));
            let mut now = 100;
            for _ in 0..200 {
                now += random.pick(&[0, 0, 1, 2, 7, 29, 30, 31]);
                let cost = random.between(1, 3);
                let expected = model.fits(&quotas, now, cost);
                assert_eq!(key.fits(&quotas, now, cost), expected, "seed {seed}, tick {now}");
                assert_eq!(key.units(), model.usage(&quotas, Moment::at(now))[0]);
                // Units over the limit count too.
                if expected || random.chance(10) {
                    key.record(now, cost);
                    model.take(&quotas, Moment::at(now), cost);
                }
            }
        }
    }
}
