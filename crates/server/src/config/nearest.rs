//! The word that somebody probably meant.

/// Longer words are not compared: the work is the product of both lengths.
const WORD_MAX: usize = 64;

/// The candidate nearest to `word`, if any is near enough to be worth naming.
pub(super) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = word.to_ascii_lowercase().replace('-', "_");
    if word.is_empty() || word.len() > WORD_MAX {
        return None;
    }
    let tolerance = word.chars().count().div_ceil(3);
    candidates
        .into_iter()
        .filter(|candidate| candidate.len() <= WORD_MAX)
        .map(|candidate| (distance(&word, &candidate.to_ascii_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= tolerance)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Letters to add, drop, change or swap with their neighbour.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.chars().collect();
    let to: Vec<char> = to.chars().collect();
    let mut before = vec![0; to.len() + 1];
    let mut last: Vec<usize> = (0..=to.len()).collect();
    for (row, letter) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in to.iter().enumerate() {
            let changed = last[column] + usize::from(letter != other);
            let mut least = changed.min(last[column + 1] + 1).min(current[column] + 1);
            let swapped = row > 0 && column > 0 && from[row - 1] == *other;
            if swapped && to[column - 1] == *letter {
                least = least.min(before[column - 1] + 1);
            }
            current.push(least);
        }
        before = core::mem::replace(&mut last, current);
    }
    last[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_named_and_a_far_one_is_not() {
        let words = ["policies", "rules", "domains", "rate_limit", "requests_per_unit", "unit"];
        for (word, expected) in [
            ("polices", Some("policies")),
            ("rulse", Some("rules")),
            ("ratelimit", Some("rate_limit")),
            ("rate-limit", Some("rate_limit")),
            ("requestsperunit", Some("requests_per_unit")),
            ("Units", Some("unit")),
            ("zebra", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, words), expected, "{word}");
        }
        assert_eq!(nearest(&"x".repeat(1000), words), None);
    }
}
