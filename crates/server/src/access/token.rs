//! A token that clients send.

use core::fmt;
use core::hint::black_box;

/// A token that clients send. It is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Token(Box<[u8]>);

/// The minimum length of a token.
const TOKEN_MIN: usize = 16;

impl Token {
    /// Reads a token, without the whitespace around it.
    ///
    /// # Errors
    ///
    /// When it is shorter than 16 bytes or not valid in a header field.
    pub fn new(text: &[u8]) -> Result<Self, String> {
        let token = text.trim_ascii();
        let len = token.len();
        if len < TOKEN_MIN {
            return Err(format!("a token of {len} bytes is too short: use at least {TOKEN_MIN}"));
        }
        if !token.iter().all(u8::is_ascii_graphic) {
            return Err("a token has letters, digits and signs of ASCII only".to_owned());
        }
        Ok(Self(token.into()))
    }

    /// Compares in constant time, except for the length.
    pub fn is(&self, sent: &[u8]) -> bool {
        if sent.len() != self.0.len() {
            return false;
        }
        let differing = sent
            .iter()
            .zip(&*self.0)
            .fold(0, |differing, (one, other)| black_box(differing | (one ^ other)));
        black_box(differing) == 0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Token(***)")
    }
}
