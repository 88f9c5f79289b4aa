//! The key of a descriptor: its domain and its path of entries, as bytes.

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
mod tests;
