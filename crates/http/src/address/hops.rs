//! The hops of a request as proxies recorded them, the nearest first.
//!
//! A proxy appends its entry at the right. Entries to the left of a trusted entry may be forged, so
//! the list is read from the right. The result for an entry never depends on those to its left, not
//! even on a quote that was opened there.

use std::net::IpAddr;

use http::header::FORWARDED;
use http::{HeaderMap, HeaderName};

use super::node;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The maximum number of entries that are read, including empty ones.
pub(super) const HOPS_MAX: usize = 64;

/// The maximum number of bytes that are read, from the right.
pub(super) const BYTES_MAX: usize = 8192;

/// The field into which proxies write hops.
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

    /// Returns the hops, the nearest first. An item is `None` if it has no address.
    ///
    /// The iterator ends at the bounds, because entries beyond them are not trusted.
    pub(super) fn hops(self, headers: &HeaderMap) -> impl Iterator<Item = Option<IpAddr>> {
        // Several lines form one list, in order.
        let lines = headers.get_all(self.name()).iter().rev();
        let mut bytes_left = BYTES_MAX;
        let entries =
            lines.flat_map(move |line| Entries { field: self, rest: Some(line.as_bytes()) });
        entries
            .take(HOPS_MAX)
            .take_while(move |entry| {
                // Each entry has a comma.
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

/// The entries of one line, from the right, trimmed.
struct Entries<'a> {
    field: HopField,
    rest: Option<&'a [u8]>,
}

impl<'a> Iterator for Entries<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let rest = self.rest?;
        // One byte more than the bound shows that an entry is too long.
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

/// Returns the position of the last comma outside quotes. The right end is outside quotes.
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

/// Returns `true` if an odd number of backslashes precedes this index.
fn is_escaped(bytes: &[u8], index: usize) -> bool {
    bytes[..index].iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// Returns the value of `for` in an entry of `Forwarded`, or `None` if it is missing, repeated or
/// malformed.
fn forwarded_for(entry: &str) -> Option<String> {
    let mut found = None;
    let mut rest = entry;
    loop {
        let (key, after) = rest.split_once('=')?;
        let (value, after) = value(after)?;
        if key.trim_matches([' ', '\t']).eq_ignore_ascii_case("for") {
            // A second `for` is a forged part of the entry.
            found.replace(value).is_none().then_some(())?;
        }
        let after = after.trim_start_matches([' ', '\t']);
        if after.is_empty() {
            return found;
        }
        rest = after.strip_prefix(';')?;
    }
}

/// Parses a value, quoted or not, and returns it with the text after it.
///
/// Brackets and colons require quotes, but many proxies omit them.
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
