//! What all rounds of a workload gave.

use crate::inproc::round::Score;
use crate::summary::Summary;

/// Scores by number of threads, contender and round.
#[derive(Debug)]
pub(crate) struct Results {
    names: Vec<&'static str>,
    scores: Vec<Entry>,
}

#[derive(Debug)]
struct Entry {
    threads: usize,
    round: usize,
    place: usize,
    score: Score,
}

impl Results {
    /// No scores yet for these contenders.
    pub(crate) fn new(names: Vec<&'static str>) -> Self {
        Self { names, scores: Vec::new() }
    }

    /// Adds the score of the contender at `place`.
    pub(crate) fn add(&mut self, threads: usize, round: usize, place: usize, score: Score) {
        self.scores.push(Entry { threads, round, place, score });
    }

    /// The contenders, in the order of the table.
    pub(crate) fn names(&self) -> &[&'static str] {
        &self.names
    }

    /// Nanoseconds per check.
    pub(crate) fn nanos(&self, threads: usize, name: &str) -> Option<Summary> {
        Summary::of(self.of(threads, name).map(|entry| entry.score.nanos))
    }

    /// Share admitted.
    pub(crate) fn admitted(&self, threads: usize, name: &str) -> Option<Summary> {
        Summary::of(self.of(threads, name).map(|entry| entry.score.admitted))
    }

    /// The time of `name` divided by that of `other` in the same round.
    pub(crate) fn ratio(&self, threads: usize, name: &str, other: &str) -> Option<Summary> {
        Summary::of(self.of(threads, name).filter_map(|entry| {
            let same_round =
                self.of(threads, other).find(|same_round| same_round.round == entry.round)?;
            Some(entry.score.nanos / same_round.score.nanos)
        }))
    }

    fn of(&self, threads: usize, name: &str) -> impl Iterator<Item = &Entry> {
        let place = self.names.iter().position(|other| *other == name);
        let entries = self.scores.iter();
        entries.filter(move |entry| entry.threads == threads && Some(entry.place) == place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let mut results = Results::new(vec!["a", "b"]);
        let score = |nanos| Score { nanos, admitted: 1.0 };
        // The machine was three times slower in the last round; the ratio does not care.
        for (round, slower) in [1.0, 1.0, 3.0].into_iter().enumerate() {
            results.add(1, round, 0, score(20.0 * slower));
            results.add(1, round, 1, score(10.0 * slower));
        }
        assert_eq!(results.ratio(1, "a", "b"), Some(Summary { q1: 2.0, median: 2.0, q3: 2.0 }));
        assert_eq!(results.ratio(2, "a", "b"), None);
        assert_eq!(results.ratio(1, "a", "absent"), None);
    }
}
