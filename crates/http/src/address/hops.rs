//! The hops of a request as proxies recorded them, the nearest first.
//!
//! A proxy adds its entry at the right. Anything to the left of a trusted entry may be forged, so
//! all is read from the right: an entry never depends on those to its left, not even on a quote that
//! was opened there.

use std::net::IpAddr;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use super::node;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The most entries that are read, empty ones included.
pub(super) const HOPS_MAX: usize = 64;

/// The most bytes that are read, from the right.
pub(super) const BYTES_MAX: usize = 8192;

/// Which field proxies write hops into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HopField {
    /// `Forwarded: for=192.0.2.7;proto=https`, RFC 7239.
    Forwarded,
    /// `X-Forwarded-For: 192.0.2.7`.
    XForwardedFor,
}

impl HopField {
    pub(super) fn name(self) -> HeaderName {
        match self {
            Self::Forwarded => FORWARDED,
            Self::XForwardedFor => X_FORWARDED_FOR,
        }
    }

    /// The hops, the nearest first; `None` for one without an address.
    ///
    /// Ends at the bounds: nothing beyond them is trusted.
    pub(super) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        // Several lines are one list, in order.
        let lines = headers.get_all(self.name()).iter().rev();
        let mut bytes_left = BYTES_MAX;
        let entries =
            lines.flat_map(move |line| Entries { field: self, rest: Some(line.as_bytes()) });
        entries
            .take(HOPS_MAX)
            .take_while(move |entry| {
                // A comma each.
                let fits = entry.len() < bytes_left;
                bytes_left = bytes_left.saturating_sub(entry.len() + 1);
                fits
            })
            .filter(|entry| !entry.is_empty())
            .map(move |entry| self.address(entry))
    }

    fn address(self, entry: &[u8]) -> Option<IpAddr> {
        let entry = std::str::from_utf8(entry).ok()?;
        match self {
            Self::Forwarded => node::parse(&forwarded_for(entry)?),
            Self::XForwardedFor => node::parse(entry),
        }
    }
}

/// The entries of one line, from the right, without the blanks around them.
struct Entries<'a> {
    field: HopField,
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // One byte more than may be read shows that an entry is too long.
        let from = rest.len().saturating_sub(BYTES_MAX + 1);
        let comma = match self.field {
            HopField::Forwarded => last_unquoted_comma(&rest[from..]),
            HopField::XForwardedFor => rest[from..].iter().rposition(|byte| *byte == b','),
        };
        let Some(comma) = comma else {
            self.rest = None;
            return Some(rest.trim_ascii());
        };
        self.rest = Some(&rest[..from + comma]);
        Some(rest[from + comma + 1..].trim_ascii())
    }
}

/// The last comma that is not in quotes, counted from the right end, which is outside of them.
fn last_unquoted_comma(bytes: &[u8]) -> Option<usize> {
    let mut quoted = false;
    for (index, byte) in bytes.iter().enumerate().rev() {
        match byte {
            b'"' if quoted => quoted = is_escaped(bytes, index),
            b'"' => quoted = true,
            b',' if !quoted => return Some(index),
            _ => {}
        }
    }
    None
}

/// Whether an odd number of backslashes precedes this index.
fn is_escaped(bytes: &[u8], index: usize) -> bool {
    bytes[..index].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// The value of `for` in an entry of `Forwarded`; `None` if it has none or two, or is malformed.
fn forwarded_for(entry: &str) -> Option<String> {
    let mut found = None;
    let mut rest = entry;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        if key.trim_matches([' ', '\t']).eq_ignore_ascii_case("for") {
            // Two of them: a forged part of an entry.
            found.replace(value).is_none().then_some(())?;
        }
        let after = after.trim_start_matches([' ', '\t']);
        if after.is_empty() {
            return found;
        }
        rest = after.strip_prefix(';')?;
    }
}

/// A value, in quotes or not, and the text after it.
///
/// Brackets and colons belong in quotes, but often come without.
fn value(text: &str) -> Option<(String, &str)> {
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([';', ' ', '\t', '"', ',', '=', '\\']).unwrap_or(text.len());
        return (end > 0).then(|| (text[..end].to_owned(), &text[end..]));
    };
    let mut value = String::new();
    let mut characters = quoted.char_indices();
    while let Some((index, character)) = characters.next() {
        match character {
            '"' => return Some((value, &quoted[index + 1..])),
            '\\' => value.push(characters.next()?.1),
            character => value.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests;
