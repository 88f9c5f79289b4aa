//! The storage of the codes of a log: in the slot, in one block on the heap, or in chunks.

use super::code::{ShortCode, UNITS};
use super::codes::{Codes, TURN};
use super::wide::WideLog;
use crate::account::Account;

/// ```text
/// Inline  [tag, len, open, 20 bytes of codes]
/// Flat    [tag, open, start, end, pointer, length]   codes are a ring in the block
/// Wide    [tag, pointer]
/// ```
///
/// `open` is the units of the last entry, which has no code yet: its gap is known only when the
/// next entry is recorded. Until then, units of the same tick need no byte.
///
/// The codes form a ring, so that a block is no larger than necessary: they go from `start` to
/// `end`, or, if `end` is before `start`, to the end of the block and on from its front. No code is
/// split: a code that does not fit before the end of the block is written to the front, with
/// [`TURN`] at its original place. `start` and `end` are equal only if there are no codes.
#[derive(Debug)]
pub(super) enum Body {
    Inline { len: u8, open: u16, bytes: [u8; INLINE] },
    Flat { open: u16, start: u16, end: u16, buffer: Box<[u8]> },
    Wide(Box<WideLog>),
}

pub(super) const INLINE: usize = 20;

/// The maximum size of one block. A longer log is divided into chunks, so that no step takes long.
pub(super) const FLAT_MAX: usize = 16 * 1024 - 8;

/// The largest block for a byte cap, because positions have sixteen bits.
pub(super) const CAPPED_MAX: usize = 64 * 1024 - 8;

const _: () = assert!(size_of::<Body>() == 24);

impl Default for Body {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Body {
    pub(super) const EMPTY: Self = Self::Inline { len: 0, open: 0, bytes: [0; INLINE] };

    /// Returns the codes, oldest first. A wide body has its own method.
    #[inline]
    pub(super) fn codes(&self) -> Codes<'_> {
        match self {
            Self::Inline { len, bytes, .. } => Codes::new(bytes, 0, usize::from(*len)),
            Self::Flat { start, end, buffer, .. } => {
                Codes::new(buffer, usize::from(*start), usize::from(*end))
            }
            Self::Wide(_) => Codes::new(&[], 0, 0),
        }
    }

    /// Returns the bytes that the codes take, including unused ones at the wrap-around.
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Inline { len, .. } => usize::from(*len),
            Self::Flat { start, end, .. } if start <= end => usize::from(*end - *start),
            Self::Flat { start, end, buffer, .. } => {
                buffer.len() - usize::from(*start) + usize::from(*end)
            }
            Self::Wide(_) => 0,
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

    /// Removes all codes and the open units, but keeps the block.
    #[inline]
    pub(super) fn clear(&mut self) {
        match self {
            Self::Inline { len, open, .. } => (*len, *open) = (0, 0),
            Self::Flat { open, start, end, .. } => (*open, *start, *end) = (0, 0, 0),
            Self::Wide(_) => {}
        }
    }

    /// Drops all codes before position `at`, which is the start of a code.
    #[expect(clippy::cast_possible_truncation, reason = "a place in a block below 64 KiB")]
    pub(super) fn drop_to(&mut self, at: usize) {
        match self {
            Self::Inline { len, bytes, .. } => {
                let at = at.min(INLINE);
                bytes.copy_within(at.., 0);
                *len = len.saturating_sub(at as u8);
            }
            Self::Flat { start, .. } => *start = at as u16,
            Self::Wide(_) => {}
        }
    }

    /// Returns the block from the first code to its end.
    #[inline]
    pub(super) fn rest_of_block(&self) -> &[u8] {
        match self {
            Self::Flat { start, buffer, .. } => {
                buffer.get(usize::from(*start)..).unwrap_or_default()
            }
            Self::Inline { bytes, .. } => bytes,
            Self::Wide(_) => &[],
        }
    }

    /// Returns `true` if the first entry certainly has one unit.
    #[inline]
    pub(super) fn first_is_one(&self) -> bool {
        match self.rest_of_block().first() {
            Some(first) => *first < UNITS,
            None => false,
        }
    }

    /// Reads the memory that a check will read.
    #[inline]
    pub(super) fn touch(&self) -> u64 {
        match self {
            Self::Flat { start, end, buffer, .. } => {
                let byte = |at: u16| buffer.get(usize::from(at)).map_or(0, |byte| u64::from(*byte));
                byte(*start) << 8 | byte(*end)
            }
            _ => 0,
        }
    }

    /// Appends the code of an open entry of one unit, if two bytes fit directly after the last
    /// code. Then another entry of one unit is open.
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "one or two")]
    pub(super) fn push_short(&mut self, code: ShortCode) -> bool {
        if let Self::Flat { open, start, end, buffer } = self {
            if *open != 1 {
                return false;
            }
            // The number of bytes up to the first code. Very large if the code is not in the way.
            let free = start.wrapping_sub(*end).wrapping_sub(1);
            if free < 2 {
                return false;
            }
            let at = usize::from(*end);
            let Some(place) = buffer.get_mut(at..at + 2) else { return false };
            place.copy_from_slice(&code.bytes);
            *end += code.len;
            return true;
        }
        let Self::Inline { open: 1, len, bytes } = self else { return false };
        let at = usize::from(*len);
        let Some(place) = bytes.get_mut(at..at + 2) else { return false };
        place.copy_from_slice(&code.bytes);
        *len += code.len as u8;
        true
    }

    /// Appends a code if it fits.
    #[expect(clippy::cast_possible_truncation, reason = "places in a block below 64 KiB")]
    pub(super) fn push(&mut self, code: &[u8]) -> bool {
        match self {
            Self::Inline { len, bytes, .. } => {
                let at = usize::from(*len);
                let Some(place) = bytes.get_mut(at..at + code.len()) else { return false };
                place.copy_from_slice(code);
                *len += code.len() as u8;
            }
            Self::Flat { start, end, buffer, .. } => {
                let Some(at) = free(usize::from(*start), usize::from(*end), buffer, code.len())
                else {
                    return false;
                };
                if let Some(turn) = buffer.get_mut(usize::from(*end)).filter(|_| at == 0) {
                    *turn = TURN;
                }
                buffer[at..at + code.len()].copy_from_slice(code);
                *end = (at + code.len()) as u16;
            }
            Self::Wide(_) => return false,
        }
        true
    }

    /// Moves the codes to the front of the block, without a wrap-around.
    #[expect(clippy::cast_possible_truncation, reason = "places in a block below 64 KiB")]
    pub(super) fn straighten(&mut self) -> &[u8] {
        let turn = self.codes().turn();
        if let Self::Flat { start, end, buffer, .. } = self {
            let (from, to) = (usize::from(*start), usize::from(*end));
            let behind = buffer.len() - from;
            let len = match turn {
                Some(turn) => {
                    buffer.rotate_left(from);
                    buffer.copy_within(behind..behind + to, turn - from);
                    turn - from + to
                }
                None => {
                    buffer.copy_within(from..to, 0);
                    to - from
                }
            };
            (*start, *end) = (0, len as u16);
        }
        let len = self.len();
        &self.bytes_mut()[..len]
    }

    /// Replaces `old` bytes at `at` by `new`, if they fit. The codes must not wrap around.
    pub(super) fn splice(&mut self, at: usize, old: usize, new: &[u8]) -> bool {
        let used = self.len();
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
        self.bytes_mut()[..codes.len()].copy_from_slice(codes);
        self.set_len(codes.len());
        true
    }

    /// Allocates a larger block with space for `more` bytes after the last code, of `likely` bytes
    /// if that is more, up to `most`. Returns `false` if that is not possible.
    #[cold]
    pub(super) fn make_room(
        &mut self,
        more: usize,
        likely: usize,
        most: usize,
        account: &Account,
    ) -> bool {
        let used = self.straighten().len();
        if used + more <= self.capacity() && self.capacity() >= most {
            return true;
        }
        let needed = block(used + more + (2 * used).isqrt()).min(most);
        let likely = block(likely).min(most);
        (likely > needed && self.resize(likely, account))
            || (needed >= used + more && self.resize(needed, account))
    }

    /// Releases unused memory if at least three quarters of a block are unused. Smaller amounts would
    /// soon be needed again.
    pub(super) fn trim(&mut self, account: &Account) {
        let used = self.len();
        if self.capacity() > 64 && used < self.capacity() / 4 {
            self.resize(block(used + (2 * used).isqrt()), account);
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
        let open = self.open();
        let codes = self.straighten();
        let used = codes.len();
        let mut buffer = vec![0; capacity].into_boxed_slice();
        buffer[..used].copy_from_slice(codes);
        *self = Self::Flat { open, start: 0, end: used as u16, buffer };
        account.shrink(before.saturating_sub(after));
        true
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

    /// Sets the length of codes that start at the front.
    #[expect(clippy::cast_possible_truncation, reason = "blocks are below 64 KiB")]
    fn set_len(&mut self, used: usize) {
        match self {
            Self::Inline { len, .. } => *len = used as u8,
            Self::Flat { start, end, .. } => (*start, *end) = (0, used as u16),
            Self::Wide(_) => {}
        }
    }
}

/// Returns the position for a code of `len` bytes in a ring from `start` to `end`: after the last
/// code, or at the front. It must not reach the first code, or the ring would look empty.
fn free(start: usize, end: usize, buffer: &[u8], len: usize) -> Option<usize> {
    if end < start {
        return (end + len < start).then_some(end);
    }
    if end + len <= buffer.len() {
        return Some(end);
    }
    (len < start).then_some(0)
}

/// The allocator's overhead per block.
pub(super) const BLOCK_OVERHEAD: usize = 8;

/// Returns the size of a block for at least `bytes`, in the allocator's steps, without its eight
/// bytes.
fn block(bytes: usize) -> usize {
    (bytes + BLOCK_OVERHEAD).next_multiple_of(16) - BLOCK_OVERHEAD
}
