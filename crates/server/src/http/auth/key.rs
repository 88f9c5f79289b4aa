//! The key of a rule, as readable text that also works with the API.
//!
//! Examples: `address=203.0.113.9`, `header:x-api-key=abc|method=POST`. Every part names its kind, and
//! `|` and `\` in a value are escaped, so that no two lists of parts have the same text and no header
//! can pass for an address.

use core::fmt;

use http::HeaderMap;
use slidegate_http::AddressKey;

use super::original::OriginalRequest;
use crate::spec::{KeyPart, MissingKey, RuleSpec};

/// The sources of a key.
#[derive(Debug)]
pub(crate) struct KeySource<'a> {
    pub(crate) address: AddressKey,
    pub(crate) original: &'a OriginalRequest,
}

/// The key of a request, or what happens to one without a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RuleKey<'a> {
    /// The request is counted by this key.
    Key(Vec<u8>),
    /// The request lacks a part of its key, and is counted by its address instead.
    Instead(Vec<u8>, Lack<'a>),
    /// The rule does not apply.
    Skip(Lack<'a>),
    /// The request is denied.
    Deny(Lack<'a>),
}

/// What a request lacks for a part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lack<'a> {
    Header(&'a str),
    ShorterHeader(&'a str),
    Host,
}

impl fmt::Display for Lack<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(formatter, "the request has no header {name}"),
            Self::ShorterHeader(name) => {
                write!(formatter, "the header {name} has more than {VALUE_MAX} bytes")
            }
            Self::Host => formatter.write_str("the request has no host"),
        }
    }
}

/// The maximum length of a header field in a key. A longer field counts as missing.
const VALUE_MAX: usize = 1024;

impl KeySource<'_> {
    /// The key of a rule whose path was matched by `pattern`.
    pub(crate) fn key<'p>(
        &self,
        rule: &'p RuleSpec,
        pattern: &str,
        headers: &HeaderMap,
    ) -> RuleKey<'p> {
        let mut key = Vec::with_capacity(64);
        for part in &rule.key {
            if !key.is_empty() {
                key.push(b'|');
            }
            if let Err(lack) = self.add(part, pattern, headers, &mut key) {
                let instead = || format!("instead:{}", self.address).into_bytes();
                return match rule.missing {
                    MissingKey::Skip => RuleKey::Skip(lack),
                    MissingKey::Deny => RuleKey::Deny(lack),
                    MissingKey::Address => RuleKey::Instead(instead(), lack),
                };
            }
        }
        RuleKey::Key(key)
    }

    /// Adds one part to a key.
    fn add<'p>(
        &self,
        part: &'p KeyPart,
        pattern: &str,
        headers: &HeaderMap,
        key: &mut Vec<u8>,
    ) -> Result<(), Lack<'p>> {
        match part {
            KeyPart::Address => push(key, "address=", self.address.to_string().as_bytes()),
            KeyPart::Header(name) => {
                let value = header(headers, name)?;
                key.extend_from_slice(b"header:");
                key.extend_from_slice(name.to_ascii_lowercase().as_bytes());
                push(key, "=", &value);
            }
            KeyPart::Host => {
                let host = self.original.host.as_bytes();
                if host.is_empty() {
                    return Err(Lack::Host);
                }
                push(key, "host=", host);
            }
            KeyPart::Method => push(key, "method=", self.original.method.as_bytes()),
            KeyPart::Path => push(key, "path=", pattern.as_bytes()),
            KeyPart::Constant(text) => push(key, "constant=", text.as_bytes()),
        }
        Ok(())
    }
}

fn push(key: &mut Vec<u8>, kind: &str, value: &[u8]) {
    key.extend_from_slice(kind.as_bytes());
    for &byte in value {
        if matches!(byte, b'|' | b'\\') {
            key.push(b'\\');
        }
        key.push(byte);
    }
}

/// All values of a field.
fn header<'p>(headers: &HeaderMap, name: &'p str) -> Result<Vec<u8>, Lack<'p>> {
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        if !all.is_empty() {
            all.push(b',');
        }
        all.extend_from_slice(value.as_bytes());
    }
    match all.len() {
        0 => Err(Lack::Header(name)),
        1..=VALUE_MAX => Ok(all),
        _ => Err(Lack::ShorterHeader(name)),
    }
}

#[cfg(test)]
mod tests;
