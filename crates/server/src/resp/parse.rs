//! Parses commands.

use core::fmt;
use core::ops::Range;

/// The maximum length of an argument and of an inline command, in bytes.
pub(super) const ARGUMENT_MAX: usize = 64 * 1024;
/// The maximum number of arguments, including the command's name.
pub(super) const ARGUMENTS_MAX: usize = 256;

/// The positions of a command's arguments in the input. Reused for the next command, so that
/// parsing does not allocate.
#[derive(Debug, Default)]
pub(super) struct CommandArguments {
    ranges: Vec<Range<usize>>,
}

/// Input that is not a command. The connection is closed, because the start of the next command is
/// unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A bad number, or a missing line end.
    Protocol(&'static str),
    /// An argument above [`ARGUMENT_MAX`].
    TooLong,
    /// More arguments than [`ARGUMENTS_MAX`].
    TooMany,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Protocol(what) => write!(formatter, "Protocol error: {what}"),
            Self::TooLong => {
                write!(formatter, "Protocol error: an argument has at most {ARGUMENT_MAX} bytes")
            }
            Self::TooMany => {
                write!(formatter, "Protocol error: a command has at most {ARGUMENTS_MAX} arguments")
            }
        }
    }
}

impl CommandArguments {
    /// Parses the first command of `input`. Returns its length, or `None` if it is incomplete. An
    /// empty line is a command without arguments.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        self.ranges.clear();
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.read_array(input),
            Some(_) => self.read_line(input),
        }
    }

    /// Returns an argument from the parsed input.
    pub(super) fn get<'a>(&self, input: &'a [u8], index: usize) -> Option<&'a [u8]> {
        input.get(self.ranges.get(index)?.clone())
    }

    pub(super) fn len(&self) -> usize {
        self.ranges.len()
    }

    fn read_array(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some((count, mut at)) = number(input, 1)? else { return Ok(None) };
        let count = usize::try_from(count.max(0)).map_err(|_| Malformed::TooMany)?;
        if count > ARGUMENTS_MAX {
            return Err(Malformed::TooMany);
        }
        for _ in 0..count {
            match input.get(at) {
                None => return Ok(None),
                Some(b'$') => {}
                Some(_) => return Err(Malformed::Protocol("expected '$'")),
            }
            let Some((length, start)) = number(input, at + 1)? else { return Ok(None) };
            let length =
                usize::try_from(length).map_err(|_| Malformed::Protocol("invalid bulk length"))?;
            if length > ARGUMENT_MAX {
                return Err(Malformed::TooLong);
            }
            let end = start + length;
            match input.get(end..end + 2) {
                None => return Ok(None),
                Some(b"\r\n") => {}
                Some(_) => return Err(Malformed::Protocol("expected a line end")),
            }
            self.ranges.push(start..end);
            at = end + 2;
        }
        Ok(Some(at))
    }

    /// Parses an inline command: words separated by whitespace.
    fn read_line(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        let Some(end) = input.iter().position(|byte| *byte == b'\n') else {
            return if input.len() > ARGUMENT_MAX { Err(Malformed::TooLong) } else { Ok(None) };
        };
        if end > ARGUMENT_MAX {
            return Err(Malformed::TooLong);
        }
        let mut start = None;
        for (at, byte) in input[..=end].iter().enumerate() {
            let is_space = byte.is_ascii_whitespace();
            match start {
                Some(from) if is_space => {
                    self.ranges.push(from..at);
                    start = None;
                }
                None if !is_space => start = Some(at),
                _ => {}
            }
        }
        if self.ranges.len() > ARGUMENTS_MAX {
            return Err(Malformed::TooMany);
        }
        Ok(Some(end + 1))
    }
}

/// Reads the number at `at`. Returns it and the start of the next line, or `None` if the line is
/// incomplete.
fn number(input: &[u8], at: usize) -> Result<Option<(i64, usize)>, Malformed> {
    /// The number of digits of the largest number.
    const DIGITS_MAX: usize = 19;
    let invalid = Malformed::Protocol("invalid number");
    let rest = input.get(at..).unwrap_or_default();
    let (sign, start) = if rest.first() == Some(&b'-') { (-1, 1) } else { (1, 0) };
    let mut value: i64 = 0;
    for (index, byte) in rest.iter().enumerate().skip(start) {
        match byte {
            b'0'..=b'9' if index - start < DIGITS_MAX => {
                let digit = i64::from(byte - b'0');
                value =
                    value.checked_mul(10).and_then(|ten| ten.checked_add(digit)).ok_or(invalid)?;
            }
            b'\r' if index > start => {
                return match rest.get(index + 1) {
                    None => Ok(None),
                    Some(b'\n') => Ok(Some((sign * value, at + index + 2))),
                    Some(_) => Err(Malformed::Protocol("expected a line end")),
                };
            }
            _ => return Err(invalid),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests;
