//! The exact sliding log, kept in the most obvious way.

/// Every admitted unit with its instant in nanoseconds; nothing is ever thrown away.
///
/// A unit admitted at `t` counts while `now - window < t`. This is the truth that every exact
/// store is measured against, so it is written to be believed, not to be fast.
///
/// ```
/// use slidegate_testkit::SlidingLog;
///
/// let mut log = SlidingLog::new(2, 60);
/// log.record(58, 2);
/// assert!(!log.would_allow(62, 1));
/// assert_eq!(log.retry_after(62, 1), Some(56));
/// assert!(log.would_allow(118, 1));
/// ```
#[derive(Debug, Clone)]
pub struct SlidingLog {
    limit: u64,
    window_ns: u64,
    /// In the order they were recorded.
    admitted: Vec<(u64, u64)>,
}

impl SlidingLog {
    /// An empty log that allows `limit` units in any stretch of `window_ns`.
    pub fn new(limit: u64, window_ns: u64) -> Self {
        Self { limit, window_ns, admitted: Vec::new() }
    }

    /// Units that count at `now_ns`. Units dated ahead count too.
    pub fn used(&self, now_ns: u64) -> u64 {
        self.counted(now_ns).map(|(_, units)| units).fold(0, u64::saturating_add)
    }

    /// Units that could be admitted at `now_ns`.
    pub fn remaining(&self, now_ns: u64) -> u64 {
        self.limit.saturating_sub(self.used(now_ns))
    }

    /// Whether `cost` more units fit at `now_ns`.
    pub fn would_allow(&self, now_ns: u64, cost: u64) -> bool {
        self.used(now_ns).saturating_add(cost) <= self.limit
    }

    /// Writes down `units` admitted at `at_ns`, whether they fit or not.
    pub fn record(&mut self, at_ns: u64, units: u64) {
        self.admitted.push((at_ns, units));
    }

    /// Asks and, if it fits, records. The answer is whether it fitted.
    pub fn check(&mut self, now_ns: u64, cost: u64) -> bool {
        let allowed = self.would_allow(now_ns, cost);
        if allowed {
            self.record(now_ns, cost);
        }
        allowed
    }

    /// Takes up to `units` of those admitted at exactly `at_ns` off the log, and says how many. What
    /// no longer counts at `now_ns` stays where it is.
    pub fn refund(&mut self, now_ns: u64, at_ns: u64, units: u64) -> u64 {
        if at_ns.saturating_add(self.window_ns) <= now_ns {
            return 0;
        }
        let mut left = units;
        for (at, admitted) in &mut self.admitted {
            if *at == at_ns {
                let back = left.min(*admitted);
                *admitted -= back;
                left -= back;
            }
        }
        self.admitted.retain(|(_, units)| *units > 0);
        units - left
    }

    /// Nanoseconds until `cost` would fit: zero when it does, `None` when it never will.
    ///
    /// Room appears only when a unit stops counting, so those instants are all there is to try.
    pub fn retry_after(&self, now_ns: u64, cost: u64) -> Option<u64> {
        let mut instants = vec![now_ns];
        instants.extend(self.counted(now_ns).map(|(at, _)| at.saturating_add(self.window_ns)));
        instants.sort_unstable();
        let then = instants.into_iter().find(|&instant| self.would_allow(instant, cost))?;
        Some(then - now_ns)
    }

    /// Nanoseconds until the first unit that counts now stops counting; zero when none counts.
    pub fn reset_after(&self, now_ns: u64) -> u64 {
        let first = self.counted(now_ns).map(|(at, _)| at.saturating_add(self.window_ns)).min();
        first.map_or(0, |instant| instant - now_ns)
    }

    /// What counts at `now_ns`, oldest first, as instant and units.
    pub fn history(&self, now_ns: u64) -> Vec<(u64, u64)> {
        let mut events: Vec<_> = self.counted(now_ns).collect();
        events.sort_unstable();
        events
    }

    fn counted(&self, now_ns: u64) -> impl Iterator<Item = (u64, u64)> + '_ {
        let since = i128::from(now_ns) - i128::from(self.window_ns);
        self.admitted.iter().copied().filter(move |(at, _)| since < i128::from(*at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_counts_until_exactly_one_window_later() {
        let mut log = SlidingLog::new(1, 10);
        log.record(5, 1);
        assert_eq!((log.used(14), log.used(15)), (1, 0));
        assert_eq!(log.retry_after(14, 1), Some(1));
        assert_eq!(log.reset_after(14), 1);
    }

    #[test]
    fn a_cost_above_the_limit_never_fits() {
        assert_eq!(SlidingLog::new(3, 10).retry_after(0, 4), None);
    }

    #[test]
    fn a_large_cost_waits_for_the_last_unit_it_needs() {
        let mut log = SlidingLog::new(3, 10);
        for at in [1, 2, 3] {
            assert!(log.check(at, 1));
        }
        assert_eq!(log.retry_after(4, 2), Some(8));
        assert_eq!(log.retry_after(4, 3), Some(9));
    }

    #[test]
    fn a_refund_from_the_middle_leaves_its_neighbours() {
        let mut log = SlidingLog::new(3, 10);
        for at in [1, 2, 3] {
            log.record(at, 1);
        }
        assert_eq!(log.refund(4, 2, 1), 1);
        assert_eq!(log.refund(4, 2, 1), 0);
        assert_eq!(log.history(4), [(1, 1), (3, 1)]);
        assert_eq!(log.refund(11, 1, 1), 0, "it no longer counts");
    }
}
