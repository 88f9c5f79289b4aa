//! Checks that no interval of real time contains more than the limit.

use core::cmp::Reverse;
use core::fmt;
use std::collections::BinaryHeap;

/// An interval of real time with more units than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation {
    /// The interval starts just after this time.
    pub after_ns: i128,
    /// The interval ends with this time.
    pub until_ns: u64,
    /// Units admitted in between.
    pub units: u128,
    /// Units that were allowed.
    pub limit: u64,
}

/// Examines every interval of `window_ns` and returns the fullest one if it is over the limit.
///
/// `admissions` are real instants and units, in any order. A stretch is open at its beginning and
/// closed at its end. Moving its end back to the last admission in it loses nothing, so it is
/// enough to look at the stretches that end with an admission: those are all tried.
///
/// ```
/// use slidegate_sim::never_over;
///
/// assert_eq!(never_over(&[(0, 5), (60, 5)], 5, 60), None);
/// let violation = never_over(&[(58, 5), (62, 5)], 5, 60).unwrap();
/// assert_eq!((violation.after_ns, violation.until_ns, violation.units), (2, 62, 10));
/// ```
pub fn never_over(admissions: &[(u64, u64)], limit: u64, window_ns: u64) -> Option<Violation> {
    let instant = |&(at, units): &(u64, u64)| Bracket { from_ns: at, until_ns: at, units };
    let brackets: Vec<Bracket> = admissions.iter().map(instant).collect();
    surely_over(&brackets, limit, window_ns)
}

/// Units that were admitted between two known times.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bracket {
    /// Not before this instant.
    pub from_ns: u64,
    /// Not after this instant.
    pub until_ns: u64,
    /// Units admitted.
    pub units: u64,
}

/// The same as [`never_over`] where instants are only known roughly: a stretch is over the limit
/// if it is so wherever in its bracket each admission was, so that only those count that are in
/// the stretch with their whole bracket.
///
/// Moving the end of a stretch back to the end of the last bracket in it loses nothing, so it is
/// enough to look at the stretches that end with a bracket.
///
/// ```
/// use slidegate_sim::{Bracket, surely_over};
///
/// let bracket = |from_ns, until_ns| Bracket { from_ns, until_ns, units: 5 };
/// assert!(surely_over(&[bracket(3, 5), bracket(60, 62)], 5, 60).is_some());
/// assert_eq!(surely_over(&[bracket(2, 5), bracket(60, 62)], 5, 60), None);
/// ```
pub fn surely_over(admissions: &[Bracket], limit: u64, window_ns: u64) -> Option<Violation> {
    let mut worst: Option<Violation> = None;
    over_windows(admissions, limit, window_ns, |found| {
        if worst.is_none_or(|worst| found.units > worst.units) {
            worst = Some(found);
        }
    });
    worst
}

/// Reports every window over the limit that ends with a bracket, as [`surely_over`] examines them, in the order of
/// their ends. Windows may overlap.
///
/// ```
/// use slidegate_sim::{Bracket, over_windows};
///
/// let bracket = |from_ns, until_ns| Bracket { from_ns, until_ns, units: 5 };
/// let mut ends = Vec::new();
/// let brackets = [bracket(3, 5), bracket(60, 62), bracket(63, 64), bracket(130, 131)];
/// over_windows(&brackets, 5, 60, |found| ends.push(found.until_ns));
/// assert_eq!(ends, [62, 64]);
/// ```
pub fn over_windows(
    admissions: &[Bracket],
    limit: u64,
    window_ns: u64,
    mut report: impl FnMut(Violation),
) {
    let mut sorted = admissions.to_vec();
    sorted.sort_unstable_by_key(|bracket| bracket.until_ns);
    let mut inside = BinaryHeap::new();
    let mut units = 0_u128;
    for bracket in sorted {
        inside.push(Reverse((bracket.from_ns, bracket.units)));
        units += u128::from(bracket.units);
        let after_ns = i128::from(bracket.until_ns) - i128::from(window_ns);
        while let Some(Reverse((from_ns, left))) = inside.peek().copied()
            && i128::from(from_ns) <= after_ns
        {
            units -= u128::from(left);
            inside.pop();
        }
        if units > u128::from(limit) {
            report(Violation { after_ns, until_ns: bracket.until_ns, units, limit });
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { after_ns, until_ns, units, limit } = self;
        write!(f, "{units} units in ({after_ns}, {until_ns}] ns, limit {limit}")
    }
}

#[cfg(test)]
mod tests;
