//! Parses commands.

use core::fmt;
use core::ops::Range;

/// The maximum length of an argument and of an inline command, in bytes.
pub(super) const ARGUMENT_MAX: usize = 64 * 1024;
/// The maximum number of arguments, including the command's name.
pub(super) const ARGUMENTS_MAX: usize = 256;

/// The positions of a command's arguments in the input. Reused for the next command, so that parsing
/// does not allocate.
#[derive(Debug, Default)]
pub(super) struct CommandArguments {
    ranges: Vec<Range<usize>>,
}

/// Input that is not a command. The connection is closed, because the next command cannot be found.
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
    /// Parses the command at the front of `input`. Returns its length, or `None` if it is incomplete.
    /// An empty line is a command without arguments.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        self.ranges.clear();
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.read_array(input),
            Some(_) => self.read_line(input),
        }
    }

    /// An argument, in the input that was parsed.
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

    /// An inline command: words separated by whitespace.
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
    /// The digits of the largest number.
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
mod tests {
    use super::*;

    type Read = Option<(usize, Vec<Vec<u8>>)>;

    fn read(input: &[u8]) -> Result<Read, Malformed> {
        let mut arguments = CommandArguments::default();
        let read = arguments.read(input)?;
        let all = (0..arguments.len()).map(|index| arguments.get(input, index).unwrap().to_vec());
        Ok(read.map(|used| (used, all.collect())))
    }

    #[test]
    fn incomplete_commands_wait() {
        let input = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n";
        for end in 0..22 {
            assert_eq!(read(&input[..end]), Ok(None), "{end}");
        }
        let ping = vec![b"PING".to_vec(), b"hi".to_vec()];
        assert_eq!(read(input), Ok(Some((22, ping))));
    }

    #[test]
    fn inline_commands_are_parsed() {
        let words = vec![b"sg.check".to_vec(), b"api".to_vec()];
        assert_eq!(read(b"  sg.check  api\r\nrest"), Ok(Some((17, words))));
        assert_eq!(read(b"\r\n"), Ok(Some((2, Vec::new()))));
        assert_eq!(read(b"sg.check"), Ok(None));
    }

    #[test]
    fn malformed_commands_are_refused() {
        for input in [
            &b"*x\r\n"[..],
            b"*1\r\n:1\r\n",
            b"*1\r\n$-1\r\n",
            b"*1\r\n$1\r\nab\r\n",
            b"*1\r\n$1\rx",
            b"*999999999999999999999\r\n",
            b"*99999999999999999999",
        ] {
            assert!(matches!(read(input), Err(Malformed::Protocol(_))), "{input:?}");
        }
        assert_eq!(read(b"*257\r\n"), Err(Malformed::TooMany));
        assert_eq!(read(b"*1\r\n$65537\r\n"), Err(Malformed::TooLong));
        assert_eq!(read(&vec![b'a'; ARGUMENT_MAX + 1]), Err(Malformed::TooLong));
        assert_eq!(
            read(&b"a ".repeat(300).into_iter().chain(*b"\n").collect::<Vec<_>>()),
            Err(Malformed::TooMany)
        );
    }

    #[test]
    fn no_input_panics() {
        let pieces: [&[u8]; 10] =
            [b"*", b"$", b"\r", b"\n", b"\r\n", b"-", b"1", b"2", b"PING", b"\0\xff"];
        let mut state = 7u64;
        for _ in 0..200_000 {
            let mut input = Vec::new();
            for _ in 0..8 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                input.extend_from_slice(pieces[(state >> 33) as usize % pieces.len()]);
            }
            if let Ok(Some((used, _))) = read(&input) {
                assert!(used > 0 && used <= input.len());
            }
        }
    }
}
