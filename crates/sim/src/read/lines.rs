//! Lines of bounded length.

use std::io::{self, BufRead};

/// The longest line that is read, in bytes. Longer ones are counted as unreadable.
const LINE_MAX: usize = 64 * 1024;

/// Reads lines of a stream into one buffer.
pub(crate) struct Lines {
    from: Box<dyn BufRead + Send>,
    buffer: Vec<u8>,
    /// Lines that were read.
    pub(crate) count: u64,
}

/// What was found in place of a line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LineEnd {
    /// The buffer holds a line.
    Line,
    /// The line was longer than the maximum.
    TooLong,
    /// The stream has ended.
    End,
}

impl Lines {
    pub(crate) fn new(from: Box<dyn BufRead + Send>) -> Self {
        Self { from, buffer: Vec::new(), count: 0 }
    }

    /// Reads the next line, without its end, into the buffer.
    pub(crate) fn advance(&mut self) -> io::Result<LineEnd> {
        self.buffer.clear();
        let mut too_long = false;
        loop {
            let available = match self.from.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                if self.buffer.is_empty() && !too_long {
                    return Ok(LineEnd::End);
                }
                break;
            }
            let end = memchr::memchr(b'\n', available);
            let part = &available[..end.unwrap_or(available.len())];
            too_long |= self.buffer.len() + part.len() > LINE_MAX;
            if !too_long {
                self.buffer.extend_from_slice(part);
            }
            let used = part.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                break;
            }
        }
        self.count += 1;
        if self.buffer.last() == Some(&b'\r') {
            self.buffer.pop();
        }
        Ok(if too_long { LineEnd::TooLong } else { LineEnd::Line })
    }

    /// The line that was read last.
    pub(crate) fn line(&self) -> &[u8] {
        &self.buffer
    }
}

impl core::fmt::Debug for Lines {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Lines").field("count", &self.count).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_above_the_maximum_is_skipped_whole() {
        let long = "x".repeat(LINE_MAX + 1);
        let text = format!("first\r\n{long}\n\nlast");
        let mut lines = Lines::new(Box::new(io::Cursor::new(text)));
        let mut seen = Vec::new();
        loop {
            match lines.advance().unwrap() {
                LineEnd::End => break,
                LineEnd::TooLong => seen.push("too long".to_owned()),
                LineEnd::Line => seen.push(String::from_utf8_lossy(lines.line()).into_owned()),
            }
        }
        assert_eq!(seen, ["first", "too long", "", "last"]);
        assert_eq!(lines.count, 4);
    }
}
