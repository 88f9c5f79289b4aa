//! A text with `*` in it.

/// Matches texts: every `*` stands for any number of characters, none too.
#[derive(Debug)]
pub(super) struct Pattern {
    first: Box<str>,
    middle: Box<[Box<str>]>,
    last: Box<str>,
    /// Of all parts together.
    len: usize,
}

impl Pattern {
    /// `None` for a text without `*`.
    pub(super) fn new(text: &str) -> Option<Self> {
        let (first, rest) = text.split_once('*')?;
        let (middle, last) = rest.rsplit_once('*').unwrap_or(("", rest));
        let middle: Box<[Box<str>]> =
            middle.split('*').filter(|part| !part.is_empty()).map(Box::from).collect();
        let len = text.len() - text.matches('*').count();
        Some(Self { first: first.into(), middle, last: last.into(), len })
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        // Beginning and end may not overlap.
        if text.len() < self.len {
            return false;
        }
        let Some(rest) = text.strip_prefix(&*self.first) else { return false };
        let Some(mut rest) = rest.strip_suffix(&*self.last) else { return false };
        // The first place where a part fits leaves the most for those behind it.
        for part in &self.middle {
            let Some((_, behind)) = rest.split_once(&**part) else { return false };
            rest = behind;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_star_is_any_text() {
        for (pattern, text, expected) in [
            ("key_a*", "key_a", true),
            ("key_a*", "key_abc", true),
            ("key_a*", "key_b", false),
            ("key_*c", "key_abc", true),
            ("key_*c", "key_abcd", false),
            ("key_a*a", "key_a", false),
            ("key_a*a", "key_aa", true),
            ("key_/a/*/b/*/c", "key_/a/1/b/2/c", true),
            ("key_/a/*/b/*/c", "key_/a/1/c", false),
            ("key_/a/*/b/*/c", "key_/a//b//c", true),
            ("key_*ab*ab", "key_ab", false),
            ("key_*ab*ab", "key_abab", true),
            ("key_**", "key_", true),
            ("*", "", true),
            ("key_ä*ö", "key_äüö", true),
            ("a_*", "a_", true),
            ("a_*", "a_b", true),
            ("a_*b", "a_b", true),
            ("a_*b", "a_bc", false),
            ("a_x*y*z", "a_xyz", true),
            ("a_x*y*z", "a_x-y-y-z", true),
            ("a_x*y*z", "a_xz", false),
            ("a_ab*ba", "a_aba", false),
            ("a_*", "b_a", false),
        ] {
            assert_eq!(Pattern::new(pattern).unwrap().matches(text), expected, "{pattern} {text}");
        }
        assert!(Pattern::new("key_a").is_none());
    }
}
