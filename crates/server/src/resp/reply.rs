//! Encodes replies.

use core::time::Duration;

/// The maximum buffer size that an idle connection keeps, in bytes.
const KEPT_MAX: usize = 16 * 1024;

/// Replies that have not been sent yet.
#[derive(Debug, Default)]
pub(super) struct Replies {
    bytes: Vec<u8>,
    /// Whether the client uses RESP3, which has maps.
    pub(super) is_resp3: bool,
}

impl Replies {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(KEPT_MAX);
    }

    pub(super) fn simple(&mut self, text: &str) {
        self.line(b'+', text);
    }

    /// Appends an error. Control characters in the text are replaced, so that it is one line.
    pub(super) fn error(&mut self, text: &str) {
        self.line(b'-', &shown(text.as_bytes()));
    }

    pub(super) fn integer(&mut self, number: i64) {
        self.bytes.push(b':');
        self.number(number);
    }

    /// Appends a number of units, at most `i64::MAX`.
    pub(super) fn units(&mut self, number: u64) {
        self.integer(i64::try_from(number).unwrap_or(i64::MAX));
    }

    pub(super) fn bulk(&mut self, bytes: &[u8]) {
        self.bytes.push(b'$');
        self.number(i64::try_from(bytes.len()).unwrap_or(i64::MAX));
        self.bytes.extend_from_slice(bytes);
        self.bytes.extend_from_slice(b"\r\n");
    }

    pub(super) fn null(&mut self) {
        self.bytes.extend_from_slice(if self.is_resp3 { b"_\r\n" } else { b"$-1\r\n" });
    }

    pub(super) fn array(&mut self, length: usize) {
        self.bytes.push(b'*');
        self.number(i64::try_from(length).unwrap_or(i64::MAX));
    }

    /// Appends the head of a map. In RESP2, it is an array of keys and values.
    pub(super) fn map(&mut self, pairs: usize) {
        if self.is_resp3 {
            self.bytes.push(b'%');
            self.number(i64::try_from(pairs).unwrap_or(i64::MAX));
        } else {
            self.array(pairs * 2);
        }
    }

    fn line(&mut self, mark: u8, text: &str) {
        self.bytes.push(mark);
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }

    fn number(&mut self, number: i64) {
        self.bytes.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
        self.bytes.extend_from_slice(b"\r\n");
    }
}

/// Formats a client's bytes for a message: at most 200, without control characters.
pub(super) fn shown(bytes: &[u8]) -> String {
    const SHOWN_MAX: usize = 200;
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN_MAX)]);
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// Rounded up, so that waiting this long is always enough.
pub(super) fn millis(duration: Duration) -> i64 {
    let part = u64::from(duration.subsec_nanos().div_ceil(1_000_000));
    let millis = duration.as_secs().saturating_mul(1000).saturating_add(part);
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// Rounded up, so that waiting this long is always enough.
pub(super) fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos().div_ceil(1_000_000_000)).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
