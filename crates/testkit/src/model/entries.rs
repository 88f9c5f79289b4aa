//! A list of admissions.

/// Every admission as tick and units, in the order it was recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries(Vec<(u64, u64)>);

impl Entries {
    /// Adds an admission.
    pub(super) fn add(&mut self, at: u64, units: u64) {
        match self.0.last_mut() {
            Some((last, sum)) if *last == at => *sum = sum.saturating_add(units),
            _ => self.0.push((at, units)),
        }
    }

    /// Takes up to `units` of those dated `at` away and says how many.
    pub(super) fn take(&mut self, at: u64, units: u64) -> u64 {
        let mut left = units;
        for (dated, admitted) in &mut self.0 {
            if *dated == at {
                let back = left.min(*admitted);
                *admitted -= back;
                left -= back;
            }
        }
        self.0.retain(|(_, units)| *units > 0);
        units - left
    }

    /// Units of all admissions whose tick is one of those wanted.
    pub(super) fn sum(&self, wanted: impl Fn(u64) -> bool) -> u128 {
        self.0.iter().filter(|(at, _)| wanted(*at)).map(|(_, units)| u128::from(*units)).sum()
    }

    /// The admissions whose tick is one of those wanted, oldest first.
    pub(super) fn list(&self, wanted: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let mut list: Vec<_> = self.0.iter().copied().filter(|(at, _)| wanted(*at)).collect();
        list.sort_unstable();
        list
    }
}
