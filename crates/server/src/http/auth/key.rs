//! The key of a rule, as readable text that also works with the API, and its tier.
//!
//! Examples: `address=203.0.113.9`, `header:x-api-key=abc|method=POST`. Every part names its kind,
//! and `|` and `\` in a value are escaped, so that different lists of parts have different texts
//! and no header can imitate an address. A value that is too long is replaced by its digest:
//! `digest:header:x-api-key=9f86d081...`.

use core::fmt;
use std::borrow::Cow;

use http::{HeaderMap, Method};
use slidegate_gate::digest_if_long;
use slidegate_http::{AddressKey, NoValue};

use super::original::OriginalRequest;
use crate::spec::{Commas, KeyPart, MissingKey, RuleSpec};

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
    Instead(Vec<u8>, NoPart<'a>),
    /// The rule does not apply.
    Skip(NoPart<'a>),
    /// The request is denied.
    Deny(NoPart<'a>),
}

/// The part of a request that a rule needs and does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoPart<'a> {
    Header(&'a str),
    /// One of several values would be chosen by the client.
    Several(&'a str),
    Host,
}

impl fmt::Display for NoPart<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(formatter, "the request has no header {name}"),
            Self::Several(name) => {
                write!(formatter, "the header {name} has several values: send it once")
            }
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
        if let Err(several) = tier_name(rule, headers) {
            return RuleKey::Deny(several);
        }
        let mut key = Vec::with_capacity(64);
        for part in &rule.key {
            if !key.is_empty() {
                key.push(b'|');
            }
            if let Err(missing) = self.add(rule, part, pattern, headers, &mut key) {
                let instead = || format!("instead:{}", self.address).into_bytes();
                return match (rule.missing, missing) {
                    (_, NoPart::Several(_)) | (MissingKey::Deny, _) => RuleKey::Deny(missing),
                    (MissingKey::Skip, _) => RuleKey::Skip(missing),
                    (MissingKey::Address, _) => RuleKey::Instead(instead(), missing),
                };
            }
        }
        RuleKey::Key(key)
    }

    /// Adds one part to a key.
    fn add<'p>(
        &self,
        rule: &RuleSpec,
        part: &'p KeyPart,
        pattern: &str,
        headers: &HeaderMap,
        key: &mut Vec<u8>,
    ) -> Result<(), NoPart<'p>> {
        match part {
            KeyPart::Address => self.push(key, "address", self.address.to_string().as_bytes()),
            KeyPart::Header(name) => {
                let kind = format!("header:{}", name.to_ascii_lowercase());
                self.push(key, &kind, &header(rule, headers, name)?);
            }
            KeyPart::Host => {
                let host = self.original.host.as_bytes();
                if host.is_empty() {
                    return Err(NoPart::Host);
                }
                self.push(key, "host", host);
            }
            KeyPart::Method => self.push(key, "method", method(&self.original.method).as_bytes()),
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

/// Returns the value of a field for a key.
fn header<'h, 'p>(
    rule: &RuleSpec,
    headers: &'h HeaderMap,
    name: &'p str,
) -> Result<Cow<'h, [u8]>, NoPart<'p>> {
    let value = match rule.commas {
        Commas::Split => rule.duplicates.value(headers, name),
        Commas::Keep => rule.duplicates.commas_kept(headers, name),
    };
    value.map_err(|no_value| match no_value {
        NoValue::Missing => NoPart::Header(name),
        NoValue::Several => NoPart::Several(name),
    })
}

/// Returns the name of the tier that a request selects, or `None` if its header is missing.
///
/// Of several values, one may be from the client, and lift it out of a tier with a lower limit.
pub(crate) fn tier_name<'p>(
    rule: &'p RuleSpec,
    headers: &HeaderMap,
) -> Result<Option<String>, NoPart<'p>> {
    let Some(name) = rule.tier_header.as_deref() else { return Ok(None) };
    match header(rule, headers, name) {
        Ok(value) => Ok(String::from_utf8(value.into_owned()).ok()),
        Err(NoPart::Several(name)) => Err(NoPart::Several(name)),
        Err(_) => Ok(None),
    }
}

/// Returns the name of a method for a key. A client can invent methods, so unknown ones share a
/// name.
fn method(name: &str) -> &str {
    let known = [
        Method::GET,
        Method::POST,
        Method::PUT,
        Method::DELETE,
        Method::HEAD,
        Method::OPTIONS,
        Method::CONNECT,
        Method::PATCH,
        Method::TRACE,
    ];
    if known.iter().any(|method| method.as_str() == name) { name } else { "other" }
}

#[cfg(test)]
mod tests;
