//! The key of a rule, as readable text that also works with the API.
//!
//! Examples: `address=203.0.113.9`, `header:x-api-key=abc|method=POST`. Every part names its kind,
//! and `|` and `\` in a value are escaped, so that different lists of parts have different texts
//! and no header can imitate an address. A value that is too long is replaced by its digest:
//! `digest:header:x-api-key=9f86d081...`.

use core::fmt;

use http::HeaderMap;
use slidegate_gate::digest_if_long;
use slidegate_http::AddressKey;

use super::original::OriginalRequest;
use crate::spec::{KeyPart, MissingKey, RuleSpec};

/// The sources of a key.
#[derive(Debug)]
pub(crate) struct KeySource<'a> {
    pub(crate) address: AddressKey,
    pub(crate) original: &'a OriginalRequest,
    /// The maximum length of a value that is not digested, in bytes.
    pub(crate) value_max: usize,
}

/// The key of a request, or the treatment of a request without a key.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum RuleKey<'a> {
    /// The request is counted by this key.
    Key(Vec<u8>),
    /// The request lacks a part of its key, and is counted by its address instead.
    Instead(Vec<u8>, MissingPart<'a>),
    /// The rule does not apply.
    Skip(MissingPart<'a>),
    /// The request is denied.
    Deny(MissingPart<'a>),
}

/// The missing part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MissingPart<'a> {
    Header(&'a str),
    Host,
}

impl fmt::Display for MissingPart<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(formatter, "the request has no header {name}"),
            Self::Host => formatter.write_str("the request has no host"),
        }
    }
}

impl KeySource<'_> {
    /// Returns the key for a rule whose path was matched by `pattern`.
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
            if let Err(missing) = self.add(part, pattern, headers, &mut key) {
                let instead = || format!("instead:{}", self.address).into_bytes();
                return match rule.missing {
                    MissingKey::Skip => RuleKey::Skip(missing),
                    MissingKey::Deny => RuleKey::Deny(missing),
                    MissingKey::Address => RuleKey::Instead(instead(), missing),
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
    ) -> Result<(), MissingPart<'p>> {
        match part {
            KeyPart::Address => self.push(key, "address", self.address.to_string().as_bytes()),
            KeyPart::Header(name) => {
                let kind = format!("header:{}", name.to_ascii_lowercase());
                self.push(key, &kind, &header(headers, name)?);
            }
            KeyPart::Host => {
                let host = self.original.host.as_bytes();
                if host.is_empty() {
                    return Err(MissingPart::Host);
                }
                self.push(key, "host", host);
            }
            KeyPart::Method => self.push(key, "method", self.original.method.as_bytes()),
            KeyPart::Path => self.push(key, "path", pattern.as_bytes()),
            KeyPart::Constant(text) => self.push(key, "constant", text.as_bytes()),
        }
        Ok(())
    }

    fn push(&self, key: &mut Vec<u8>, kind: &str, value: &[u8]) {
        if let Some(digest) = digest_if_long(value, self.value_max) {
            key.extend_from_slice(b"digest:");
            key.extend_from_slice(kind.as_bytes());
            key.push(b'=');
            key.extend(digest.iter().flat_map(|byte| format!("{byte:02x}").into_bytes()));
            return;
        }
        key.extend_from_slice(kind.as_bytes());
        key.push(b'=');
        for &byte in value {
            if matches!(byte, b'|' | b'\\') {
                key.push(b'\\');
            }
            key.push(byte);
        }
    }
}

/// Returns all values of a field.
fn header<'p>(headers: &HeaderMap, name: &'p str) -> Result<Vec<u8>, MissingPart<'p>> {
    let mut all = Vec::new();
    for value in headers.get_all(name) {
        if !all.is_empty() {
            all.push(b',');
        }
        all.extend_from_slice(value.as_bytes());
    }
    if all.is_empty() { Err(MissingPart::Header(name)) } else { Ok(all) }
}

#[cfg(test)]
mod tests;
