//! Suggestions for misspelled words.

/// Returns the candidate most similar to `word`, if it is similar enough to be a typo.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not compared, because it would take too long.
    const WORD_MAX: usize = 64;
    /// A configuration may contain any number of names.
    const CANDIDATES_MAX: usize = 1000;
    if word.len() > WORD_MAX {
        return None;
    }
    let most = (word.chars().count() / 3).max(1);
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= WORD_MAX)
        .map(|candidate| (strsim::osa_distance(&word, &candidate.to_lowercase()), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Returns `: did you mean ...?` for the most similar candidate, or an empty text.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(word, candidates);
    near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
