//! Finds the end of requests and replies in a stream of the Redis protocol.

/// Follows a stream in pieces of any size. It reads lengths and counts, not values.
#[derive(Debug, Default)]
pub(super) struct Frames {
    place: Place,
    /// The number of values that the frame still needs after the current one.
    values_left: u64,
}

#[derive(Debug)]
enum Place {
    /// In a line, with its first bytes.
    Line(Vec<u8>),
    /// In a value of known length, with its line break.
    Value(u64),
    /// Not the Redis protocol: every piece counts as a frame.
    Opaque,
}

impl Default for Place {
    fn default() -> Self {
        Self::Line(Vec::new())
    }
}

/// The bytes of a piece that belong to the current frame.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) length: usize,
    pub(super) is_last: bool,
}

/// Enough for a type and a number. The rest of a long line is not stored.
const LINE_KEPT: usize = 24;

impl Frames {
    /// Reads to the end of the frame, or of the piece.
    pub(super) fn follow(&mut self, piece: &[u8]) -> Part {
        let mut length = 0;
        while length < piece.len() {
            let (taken, value_ended) = self.step(&piece[length..]);
            length += taken;
            if value_ended {
                if self.values_left == 0 {
                    return Part { length, is_last: true };
                }
                self.values_left -= 1;
            }
        }
        Part { length, is_last: false }
    }

    /// Reads one line or value, or to the end of the piece. Returns the number of bytes, and
    /// whether a value ended with them.
    fn step(&mut self, piece: &[u8]) -> (usize, bool) {
        match &mut self.place {
            Place::Opaque => (piece.len(), true),
            Place::Value(left) => {
                let taken = piece.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= u64::try_from(taken).unwrap_or(*left);
                let ended = *left == 0;
                if ended {
                    self.place = Place::default();
                }
                (taken, ended)
            }
            Place::Line(line) => {
                let end = piece.iter().position(|byte| *byte == b'\n');
                let taken = end.map_or(piece.len(), |end| end + 1);
                let room = LINE_KEPT.saturating_sub(line.len());
                line.extend(piece[..taken].iter().take(room));
                let started = line.first().is_none_or(|kind| KINDS.contains(kind));
                if !started {
                    self.place = Place::Opaque;
                    self.values_left = 0;
                    return (piece.len(), true);
                }
                if end.is_none() {
                    return (taken, false);
                }
                let line = core::mem::take(line);
                (taken, self.end_line(&line))
            }
        }
    }

    /// Returns `true` if a value ended with the line.
    fn end_line(&mut self, line: &[u8]) -> bool {
        let Some((kind, number)) = line.split_first() else { return true };
        let number = core::str::from_utf8(number).unwrap_or_default().trim_end();
        // -1 and invalid numbers count nothing.
        let number: u64 = number.parse().unwrap_or_default();
        match kind {
            b'$' | b'=' | b'!' if line.get(1) != Some(&b'-') => {
                self.place = Place::Value(number.saturating_add(2));
                false
            }
            b'*' | b'~' | b'>' => self.expect_more(number),
            b'%' => self.expect_more(number.saturating_mul(2)),
            // The described value follows.
            b'|' => self.expect_more(number.saturating_mul(2).saturating_add(1)),
            _ => true,
        }
    }

    /// The current value is a list of these.
    fn expect_more(&mut self, values: u64) -> bool {
        if values == 0 {
            return true;
        }
        self.values_left = self.values_left.saturating_add(values - 1);
        false
    }
}

/// The first bytes of lines of the protocol.
const KINDS: &[u8] = b"+-:,_#($=!*~>%|";

#[cfg(test)]
mod tests;
