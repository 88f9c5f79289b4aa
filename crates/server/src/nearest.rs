//! The word that was probably meant.

/// The candidate nearest to `word`, if one is near enough to be a slip.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not compared: it would take too long, and nobody mistypes them.
    const WORD_MAX: usize = 64;
    /// A configuration may name any number.
    const CANDIDATES_MAX: usize = 1000;
    if word.len() > WORD_MAX {
        return None;
    }
    let most = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= WORD_MAX)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Letters to add, leave out, change, or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let (from, to): (Vec<char>, Vec<char>) =
        (from.to_lowercase().chars().collect(), to.to_lowercase().chars().collect());
    let mut rows = vec![vec![0; to.len() + 1]; from.len() + 1];
    for (index, row) in rows.iter_mut().enumerate() {
        row[0] = index;
    }
    rows[0] = (0..=to.len()).collect();
    for i in 1..=from.len() {
        for j in 1..=to.len() {
            let changed = usize::from(from[i - 1] != to[j - 1]);
            let mut least =
                (rows[i - 1][j] + 1).min(rows[i][j - 1] + 1).min(rows[i - 1][j - 1] + changed);
            if i > 1 && j > 1 && from[i - 1] == to[j - 2] && from[i - 2] == to[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[from.len()][to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_find_their_word() {
        let words = ["quotas", "algorithm", "store", "mode"];
        for (slip, word) in [
            ("qoutas", "quotas"),
            ("quota", "quotas"),
            ("Algoritm", "algorithm"),
            ("stroe", "store"),
        ] {
            assert_eq!(nearest(slip, words), Some(word), "{slip}");
        }
        assert_eq!(nearest("banana", words), None);
        assert_eq!(nearest("", words), None);
        assert_eq!(nearest(&"m".repeat(1000), words), None);
    }
}
