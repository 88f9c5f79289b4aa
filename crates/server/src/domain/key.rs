//! Who is counted apart: a domain and a path of entries, as bytes.

use super::question::Entry;

/// The bytes of a path. No two different paths have the same: every text is preceded by its
/// length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyBytes(Vec<u8>);

impl KeyBytes {
    pub(super) fn new(domain: &str) -> Self {
        let mut key = Self(Vec::with_capacity(64));
        key.push(domain);
        key
    }

    pub(super) fn of(domain: &str, entries: &[Entry<'_>]) -> Self {
        let mut key = Self::new(domain);
        for entry in entries {
            key.push_entry(entry.key, entry.value);
        }
        key
    }

    /// Adds a level. The value may be the pattern that all matching values share.
    pub(super) fn push_entry(&mut self, key: &str, value: &str) {
        self.push(key);
        self.push(value);
    }

    pub(super) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    fn push(&mut self, text: &str) {
        // Questions and trees hold no text that is longer than two bytes can say.
        let len = u16::try_from(text.len()).unwrap_or(u16::MAX);
        self.0.extend_from_slice(&len.to_be_bytes());
        self.0.extend_from_slice(&text.as_bytes()[..usize::from(len)]);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn text() -> impl Strategy<Value = String> {
        prop_oneof!["[ab_:{}\\x00]{0,4}", ".{0,80}"]
    }

    fn path() -> impl Strategy<Value = (String, Vec<(String, String)>)> {
        (text(), prop::collection::vec((text(), text()), 0..4))
    }

    fn encode((domain, entries): &(String, Vec<(String, String)>)) -> KeyBytes {
        let entries: Vec<_> = entries.iter().map(|(key, value)| Entry { key, value }).collect();
        KeyBytes::of(domain, &entries)
    }

    fn decode(mut bytes: &[u8]) -> Vec<String> {
        let mut texts = Vec::new();
        while let [high, low, rest @ ..] = bytes {
            let (text, rest) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
            texts.push(String::from_utf8(text.to_vec()).unwrap());
            bytes = rest;
        }
        texts
    }

    proptest! {
        // The reference service joins by `_`: there key `a` value `b_c` is key `a_b` value `c`.
        #[test]
        fn different_paths_are_different_keys(one in path(), other in path()) {
            prop_assert_eq!(encode(&one) == encode(&other), one == other);
        }

        #[test]
        fn what_went_in_comes_out(path in path()) {
            let (domain, entries) = path.clone();
            let mut expected = vec![domain];
            expected.extend(entries.into_iter().flat_map(|(key, value)| [key, value]));
            prop_assert_eq!(decode(encode(&path).as_slice()), expected);
        }
    }
}
