//! Where the codes of a log live: in the slot, in one block on the heap, or in chunks.

use super::wide::Wide;
use crate::memory::Account;

/// ```text
/// Inline  [tag, len, open, 20 bytes of codes]
/// Flat    [tag, open, start, end, pointer, length]   codes are buffer[start..end]
/// Wide    [tag, pointer]
/// ```
///
/// `open` is the units of the last entry, which has no code yet: a gap is only known when the
/// next entry comes, and until then units of the same tick cost no byte.
#[derive(Debug)]
pub(super) enum Body {
    Inline { len: u8, open: u16, bytes: [u8; INLINE] },
    Flat { open: u16, start: u16, end: u16, buffer: Box<[u8]> },
    Wide(Box<Wide>),
}

pub(super) const INLINE: usize = 20;

/// The most bytes in one block; beyond it a log is cut into chunks, so that no step is long.
pub(super) const FLAT_MAX: usize = 16 * 1024 - 8;

/// The largest block that a cap can ask for: positions have sixteen bits.
pub(super) const CAPPED_MAX: usize = 64 * 1024 - 8;

const _: () = assert!(size_of::<Body>() == 24);

impl Body {
    pub(super) const EMPTY: Self = Self::Inline { len: 0, open: 0, bytes: [0; INLINE] };

    /// The codes. A wide body has its own.
    #[inline]
    pub(super) fn codes(&self) -> &[u8] {
        match self {
            Self::Inline { len, bytes, .. } => &bytes[..usize::from(*len).min(INLINE)],
            Self::Flat { start, end, buffer, .. } => {
                buffer.get(usize::from(*start)..usize::from(*end)).unwrap_or_default()
            }
            Self::Wide(_) => &[],
        }
    }

    #[inline]
    pub(super) fn open(&self) -> u16 {
        match self {
            Self::Inline { open, .. } | Self::Flat { open, .. } => *open,
            Self::Wide(_) => 0,
        }
    }

    #[inline]
    pub(super) fn set_open(&mut self, units: u16) {
        match self {
            Self::Inline { open, .. } | Self::Flat { open, .. } => *open = units,
            Self::Wide(_) => {}
        }
    }

    /// Forgets all codes and the open units; keeps the block.
    #[inline]
    pub(super) fn clear(&mut self) {
        match self {
            Self::Inline { len, open, .. } => (*len, *open) = (0, 0),
            Self::Flat { open, start, end, .. } => (*open, *start, *end) = (0, 0, 0),
            Self::Wide(_) => {}
        }
    }

    /// Drops the first `count` bytes of codes.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "never more bytes than there are")]
    pub(super) fn drop_front(&mut self, count: usize) {
        match self {
            Self::Inline { len, bytes, .. } => {
                // Shifting all twenty bytes beats moving just the used ones.
                let mut shifted = [0; INLINE];
                let count = count.min(INLINE);
                shifted[..INLINE - count].copy_from_slice(&bytes[count..]);
                *bytes = shifted;
                *len = len.saturating_sub(count as u8);
            }
            Self::Flat { start, end, .. } => *start = (*start + count as u16).min(*end),
            Self::Wide(_) => {}
        }
    }

    /// Appends a code of one byte if there is room.
    #[inline]
    pub(super) fn push_byte(&mut self, byte: u8) -> bool {
        match self {
            Self::Inline { len, bytes, .. } => {
                let Some(place) = bytes.get_mut(usize::from(*len)) else { return false };
                *place = byte;
                *len += 1;
            }
            Self::Flat { end, buffer, .. } => {
                let Some(place) = buffer.get_mut(usize::from(*end)) else { return false };
                *place = byte;
                *end += 1;
            }
            Self::Wide(_) => return false,
        }
        true
    }

    /// Appends a code of two bytes if there is room.
    #[inline]
    pub(super) fn push_pair(&mut self, first: u8, second: u8) -> bool {
        match self {
            Self::Inline { len, bytes, .. } => {
                let at = usize::from(*len);
                let Some(place) = bytes.get_mut(at..at + 2) else { return false };
                place.copy_from_slice(&[first, second]);
                *len += 2;
            }
            Self::Flat { end, buffer, .. } => {
                let at = usize::from(*end);
                let Some(place) = buffer.get_mut(at..at + 2) else { return false };
                place.copy_from_slice(&[first, second]);
                *end += 2;
            }
            Self::Wide(_) => return false,
        }
        true
    }

    /// Appends if there is room behind the last code.
    #[expect(clippy::cast_possible_truncation, reason = "a code has at most eighteen bytes")]
    pub(super) fn push(&mut self, code: &[u8]) -> bool {
        let (end, bytes) = match self {
            Self::Inline { len, bytes, .. } => (usize::from(*len), &mut bytes[..]),
            Self::Flat { end, buffer, .. } => (usize::from(*end), &mut buffer[..]),
            Self::Wide(_) => return false,
        };
        let Some(place) = bytes.get_mut(end..end + code.len()) else {
            return false;
        };
        place.copy_from_slice(code);
        match self {
            Self::Inline { len, .. } => *len += code.len() as u8,
            Self::Flat { end, .. } => *end += code.len() as u16,
            Self::Wide(_) => {}
        }
        true
    }

    /// Replaces `old` bytes at `at` by `new`, if they fit once the codes are moved to the front.
    pub(super) fn splice(&mut self, at: usize, old: usize, new: &[u8]) -> bool {
        self.move_to_front();
        let used = self.codes().len();
        if used - old + new.len() > self.capacity() {
            return false;
        }
        self.set_len(used - old + new.len());
        let bytes = self.bytes_mut();
        bytes.copy_within(at + old..used, at + new.len());
        bytes[at..at + new.len()].copy_from_slice(new);
        true
    }

    /// Replaces all codes, if they fit.
    pub(super) fn replace(&mut self, codes: &[u8]) -> bool {
        if codes.len() > self.capacity() {
            return false;
        }
        self.drop_front(self.codes().len());
        self.move_to_front();
        self.bytes_mut()[..codes.len()].copy_from_slice(codes);
        self.set_len(codes.len());
        true
    }

    /// Makes room for `more` bytes behind the last code: moves the codes to the front when that
    /// frees enough to be worth it, otherwise takes a larger block, of `likely` bytes if that is
    /// more than needed, up to `most`. False if neither can be had.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        more: usize,
        likely: usize,
        most: usize,
        account: &Account,
    ) -> bool {
        let used = self.codes().len();
        if let Self::Flat { start, buffer, .. } = self {
            let wasted = usize::from(*start);
            let enough = wasted + buffer.len() >= used + wasted + more;
            // Moving costs what is used, so it waits until a part of that has been appended.
            let worth = wasted >= 8 && wasted * 32 >= used;
            if enough && (worth || buffer.len() >= most) {
                self.move_to_front();
                if used + more <= self.capacity() {
                    return true;
                }
            }
        }
        let needed = block(used + more + used / 32).min(most);
        let likely = block(likely).min(most);
        (likely > needed && self.resize(likely, account))
            || (needed >= used + more && self.resize(needed, account))
    }

    /// Gives back what is clearly too much: three quarters of a block, or all of it when nothing
    /// is on record. Less would be wanted again soon.
    pub(super) fn trim(&mut self, account: &Account) {
        let used = self.codes().len();
        if used == 0 && self.open() == 0 {
            account.shrink(self.heap_bytes());
            *self = Self::EMPTY;
        } else if self.capacity() > 64 && used < self.capacity() / 4 {
            self.resize(block(used + used / 32), account);
        }
    }

    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Inline { .. } => 0,
            Self::Flat { buffer, .. } => buffer.len() + BLOCK_OVERHEAD,
            Self::Wide(wide) => wide.heap_bytes(),
        }
    }

    #[expect(clippy::cast_possible_truncation, reason = "blocks are below 64 KiB")]
    fn resize(&mut self, capacity: usize, account: &Account) -> bool {
        let before = self.heap_bytes();
        let after = capacity + BLOCK_OVERHEAD;
        if after > before && !account.try_grow(after - before) {
            return false;
        }
        let (codes, open) = (self.codes(), self.open());
        let used = codes.len();
        let mut buffer = vec![0; capacity].into_boxed_slice();
        buffer[..used].copy_from_slice(codes);
        *self = Self::Flat { open, start: 0, end: used as u16, buffer };
        account.shrink(before.saturating_sub(after));
        true
    }

    #[expect(clippy::cast_possible_truncation, reason = "blocks are below 64 KiB")]
    fn move_to_front(&mut self) {
        if let Self::Flat { start, end, buffer, .. } = self {
            let range = usize::from(*start)..usize::from(*end);
            (*start, *end) = (0, range.len() as u16);
            buffer.copy_within(range, 0);
        }
    }

    fn capacity(&self) -> usize {
        match self {
            Self::Inline { .. } => INLINE,
            Self::Flat { buffer, .. } => buffer.len(),
            Self::Wide(_) => 0,
        }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        match self {
            Self::Inline { bytes, .. } => bytes,
            Self::Flat { buffer, .. } => buffer,
            Self::Wide(_) => &mut [],
        }
    }

    /// The codes lie at the front.
    #[expect(clippy::cast_possible_truncation, reason = "blocks are below 64 KiB")]
    fn set_len(&mut self, used: usize) {
        match self {
            Self::Inline { len, .. } => *len = used as u8,
            Self::Flat { start, end, .. } => (*start, *end) = (0, used as u16),
            Self::Wide(_) => {}
        }
    }
}

/// What the allocator keeps beside each block.
pub(super) const BLOCK_OVERHEAD: usize = 8;

/// A block of at least `bytes` in steps of a cache line, eight bytes of it the allocator's own.
/// Finer steps would fit closer, but leave more of the memory in holes that nothing fits.
fn block(bytes: usize) -> usize {
    (bytes + BLOCK_OVERHEAD).next_multiple_of(64) - BLOCK_OVERHEAD
}
