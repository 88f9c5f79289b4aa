//! The check that no stretch of real time holds too much.

use core::fmt;

/// A stretch of real time that holds more units than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The stretch begins just after this instant.
    pub after_ns: i128,
    /// The stretch ends with this instant.
    pub until_ns: u64,
    /// Units admitted in between.
    pub units: u128,
    /// Units that were allowed.
    pub limit: u64,
}

/// Looks at every stretch of `window_ns` and returns the fullest one if it is over the limit.
///
/// `admissions` are real instants and units, in any order. A stretch is open at its beginning and
/// closed at its end. Moving its end back to the last admission in it loses nothing, so it is
/// enough to look at the stretches that end with an admission: those are all tried.
///
/// ```
/// use slidegate_testkit::never_over;
///
/// assert_eq!(never_over(&[(0, 5), (60, 5)], 5, 60), None);
/// let violation = never_over(&[(58, 5), (62, 5)], 5, 60).unwrap();
/// assert_eq!((violation.after_ns, violation.until_ns, violation.units), (2, 62, 10));
/// ```
pub fn never_over(admissions: &[(u64, u64)], limit: u64, window_ns: u64) -> Option<Violation> {
    let mut sorted = admissions.to_vec();
    sorted.sort_unstable();
    let mut worst: Option<Violation> = None;
    let mut first = 0;
    let mut units = 0_u128;
    for &(until_ns, admitted) in &sorted {
        units += u128::from(admitted);
        let after_ns = i128::from(until_ns) - i128::from(window_ns);
        while i128::from(sorted[first].0) <= after_ns {
            units -= u128::from(sorted[first].1);
            first += 1;
        }
        let fuller = worst.is_none_or(|worst| units > worst.units);
        if units > u128::from(limit) && fuller {
            worst = Some(Violation { after_ns, until_ns, units, limit });
        }
    }
    worst
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after_ns, until_ns, units, limit } = self;
        write!(f, "{units} units in ({after_ns}, {until_ns}] ns, limit {limit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_one_instant_count_together_in_any_order() {
        assert_eq!(never_over(&[(7, 2), (3, 1), (7, 2)], 5, 5), None);
        let violation = never_over(&[(7, 3), (3, 1), (7, 2)], 5, 5).unwrap();
        assert_eq!(violation.to_string(), "6 units in (2, 7] ns, limit 5");
    }

    #[test]
    fn the_beginning_is_open() {
        assert_eq!(never_over(&[(2, 5), (7, 5)], 5, 5), None);
        assert!(never_over(&[(2, 5), (6, 1)], 5, 5).is_some());
    }

    #[test]
    fn nothing_admitted_is_never_over() {
        assert_eq!(never_over(&[], 1, 1), None);
    }
}
