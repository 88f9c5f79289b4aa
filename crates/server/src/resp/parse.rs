//! Commands out of bytes.

use core::fmt;
use core::ops::Range;

/// The longest argument, and the longest line typed by hand.
pub(super) const ARGUMENT_MAX: usize = 64 * 1024;
/// The most arguments of one command, its name included.
pub(super) const ARGUMENTS_MAX: usize = 256;

/// Where the arguments of one command are; used again for the next.
#[derive(Debug, Default)]
pub(super) struct Arguments {
    ranges: Vec<Range<usize>>,
}

/// What cannot be a command. The connection ends with it, as its end is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Malformed {
    /// A number that is none, or a line end that is not there.
    Protocol(&'static str),
    /// More than fits.
    TooLong,
    /// More than [`ARGUMENTS_MAX`].
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

impl Arguments {
    /// Reads one command from the front of `input`: how many bytes it took, or none if it is not
    /// all there yet. No arguments is a command too: an empty line.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<Option<usize>, Malformed> {
        self.ranges.clear();
        match input.first() {
            None => Ok(None),
            Some(b'*') => self.read_array(input),
            Some(_) => self.read_line(input),
        }
    }

    /// The arguments as bytes of the same input.
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

    /// Words typed by hand.
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

/// The number that starts at `at`, and where the next line does.
fn number(input: &[u8], at: usize) -> Result<Option<(i64, usize)>, Malformed> {
    /// Digits of the largest number, with its sign.
    const DIGITS_MAX: usize = 20;
    let rest = input.get(at..).unwrap_or_default();
    // Nearly all lengths have one digit or two.
    match *rest {
        [one @ b'0'..=b'9', b'\r', b'\n', ..] => return Ok(Some((digit(one), at + 3))),
        [ten @ b'0'..=b'9', one @ b'0'..=b'9', b'\r', b'\n', ..] => {
            return Ok(Some((digit(ten) * 10 + digit(one), at + 4)));
        }
        _ => {}
    }
    let (negative, digits) = match rest.first() {
        Some(b'-') => (true, &rest[1..]),
        _ => (false, rest),
    };
    let mut value: i64 = 0;
    for (index, byte) in digits.iter().take(DIGITS_MAX + 1).enumerate() {
        if *byte == b'\r' && index > 0 {
            let next = at + usize::from(negative) + index;
            return match input.get(next + 1) {
                None => Ok(None),
                Some(b'\n') => Ok(Some((if negative { -value } else { value }, next + 2))),
                Some(_) => Err(Malformed::Protocol("expected a line end")),
            };
        }
        if !byte.is_ascii_digit() {
            return Err(Malformed::Protocol("invalid number"));
        }
        value = value
            .checked_mul(10)
            .and_then(|value| value.checked_add(digit(*byte)))
            .ok_or(Malformed::Protocol("invalid number"))?;
    }
    if digits.len() > DIGITS_MAX { Err(Malformed::Protocol("invalid number")) } else { Ok(None) }
}

fn digit(byte: u8) -> i64 {
    i64::from(byte - b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Option<(usize, Vec<Vec<u8>>)>;

    fn read(input: &[u8]) -> Result<Read, Malformed> {
        let mut arguments = Arguments::default();
        let read = arguments.read(input)?;
        let all = (0..arguments.len()).map(|index| arguments.get(input, index).unwrap().to_vec());
        Ok(read.map(|used| (used, all.collect())))
    }

    #[test]
    fn a_command_is_read_when_all_of_it_is_there() {
        let input = b"*2\r\n$4\r\nPING\r\n$2\r\nhi\r\n*1\r\n";
        for end in 0..22 {
            assert_eq!(read(&input[..end]), Ok(None), "{end}");
        }
        let ping = vec![b"PING".to_vec(), b"hi".to_vec()];
        assert_eq!(read(input), Ok(Some((22, ping))));
    }

    #[test]
    fn words_are_a_command_too() {
        let words = vec![b"sg.check".to_vec(), b"api".to_vec()];
        assert_eq!(read(b"  sg.check  api\r\nrest"), Ok(Some((17, words))));
        assert_eq!(read(b"\r\n"), Ok(Some((2, Vec::new()))));
        assert_eq!(read(b"sg.check"), Ok(None));
    }

    #[test]
    fn what_is_no_command_is_refused() {
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
    fn no_bytes_panic() {
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
