//! The bytes of a key: each part with its kind and length.

/// The bytes of a key. Different lists of parts have different bytes, because every part is
/// preceded by its kind and its length.
#[derive(Clone)]
pub(crate) struct KeyBytes {
    inline: [u8; INLINE],
    len: u8,
    /// All bytes, if they do not fit inline.
    heap: Vec<u8>,
}

/// Enough for an address with a short word, or a digest with an address.
const INLINE: usize = 56;

/// The kind of a part, so that a value cannot imitate another kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value, unchanged.
    Value = b'v' as isize,
    /// The keyed hash of a value.
    Digest = b'd' as isize,
    /// An address.
    Address = b'a' as isize,
    /// The peer's address, used because the key is missing.
    Fallback = b'p' as isize,
}

/// The size of a kind and a length of two bytes.
const PREFIX: usize = 3;

impl KeyBytes {
    #[inline]
    pub(crate) fn new() -> Self {
        Self { inline: [0; INLINE], len: 0, heap: Vec::new() }
    }

    /// Appends a part of at most 256 bytes.
    #[inline]
    pub(crate) fn push(&mut self, kind: Kind, part: &[u8]) {
        debug_assert!(part.len() <= super::PART_MAX, "longer parts are digested first");
        #[expect(clippy::cast_possible_truncation, reason = "at most 256")]
        let [high, low] = (part.len() as u16).to_be_bytes();
        let prefix = [kind as u8, high, low];
        let (start, end) = (usize::from(self.len), usize::from(self.len) + PREFIX + part.len());
        if self.heap.is_empty()
            && let Some(place) = self.inline.get_mut(start..end)
        {
            let (head, tail) = place.split_at_mut(PREFIX);
            head.copy_from_slice(&prefix);
            tail.copy_from_slice(part);
            #[expect(clippy::cast_possible_truncation, reason = "at most INLINE")]
            let len = end as u8;
            self.len = len;
            return;
        }
        self.push_long(prefix, part);
    }

    #[cold]
    fn push_long(&mut self, prefix: [u8; PREFIX], part: &[u8]) {
        if self.heap.is_empty() {
            self.heap.extend_from_slice(&self.inline[..usize::from(self.len)]);
        }
        self.heap.extend_from_slice(&prefix);
        self.heap.extend_from_slice(part);
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        if self.heap.is_empty() { &self.inline[..usize::from(self.len)] } else { &self.heap }
    }
}

#[cfg(test)]
mod tests;
