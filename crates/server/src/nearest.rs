//! The word that was probably meant.

/// Returns the candidate nearest to `word`, if one is near enough to be a typing mistake.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    /// Longer words are not compared: it would take too long.
    const WORD_MAX: usize = 64;
    /// A configuration may name any number.
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

/// Returns `: did you mean ...?` for the nearest candidate, or an empty text.
pub(crate) fn hint<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> String {
    let near = nearest(word, candidates);
    near.map(|near| format!(": did you mean `{near}`?")).unwrap_or_default()
}

#[cfg(test)]
mod tests;
