//! The key of a descriptor: its domain and its path of entries, as bytes.

use slidegate_gate::digest_if_long;

use super::limit_request::Entry;

/// The bytes of a path. Different paths have different bytes: every text is preceded by its length,
/// and a text that is too long is replaced by its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct KeyBytes {
    bytes: Vec<u8>,
    text_max: usize,
}

/// Precedes a digest instead of a length.
const DIGEST: u16 = u16::MAX;

impl KeyBytes {
    /// Creates the key of a domain. Texts longer than `text_max` bytes are counted by their digest.
    pub(super) fn new(domain: &str, text_max: usize) -> Self {
        let text_max = text_max.min(usize::from(DIGEST) - 1);
        let mut key = Self { bytes: Vec::with_capacity(64), text_max };
        key.push(domain);
        key
    }

    pub(super) fn of(domain: &str, entries: &[Entry<'_>], text_max: usize) -> Self {
        let mut key = Self::new(domain, text_max);
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
        &self.bytes
    }

    fn push(&mut self, text: &str) {
        let digest = digest_if_long(text.as_bytes(), self.text_max);
        // Shorter texts fit, because `text_max` is below the maximum.
        let len = if digest.is_some() { DIGEST } else { u16::try_from(text.len()).unwrap_or(0) };
        self.bytes.extend_from_slice(&len.to_be_bytes());
        self.bytes.extend_from_slice(digest.as_ref().map_or(text.as_bytes(), <[u8; 32]>::as_slice));
    }
}

#[cfg(test)]
mod tests;
