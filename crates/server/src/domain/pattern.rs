//! A text with `*`.

/// Matches texts: every `*` matches any number of characters, including none.
#[derive(Debug)]
pub(super) struct Pattern {
    first: Box<str>,
    middle: Box<[Box<str>]>,
    last: Box<str>,
    /// The length of all parts together.
    len: usize,
}

impl Pattern {
    /// Returns `None` for a text without `*`.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle: Box<[Box<str>]> =
            middle.split('*').filter(|part| !part.is_empty()).map(Box::from).collect();
        let len = text.len() - text.matches('*').count();
        Some(Self { first: first.into(), middle, last: last.into(), len })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        // Start and end may not overlap.
        if text.len() < self.len {
            return false;
        }
        let Some(rest) = text.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        // The first match of a part leaves the most text for later parts.
        for part in &self.middle {
            let Some((_, behind)) = rest.split_once(&**part) else { return false };
            rest = behind;
        }
        true
    }
}

#[cfg(test)]
mod tests;
