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

/// What happens to a request without a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Skip,
    Deny,
}

/// What a request lacks for a part of a key.
#[derive(Debug, Clone, Copy)]
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
    pub(super) fn key(
        &self,
        rule: &RuleSpec,
        pattern: &str,
        headers: &HeaderMap,
    ) -> Result<Vec<u8>, Missing> {
        let mut key = Vec::with_capacity(64);
        for part in &rule.key {
            if !key.is_empty() {
                key.push(b'|');
            }
            if self.add(part, pattern, headers, &mut key).is_err() {
                return match rule.missing {
                    MissingKey::Skip => Err(Missing::Skip),
                    MissingKey::Deny => Err(Missing::Deny),
                    MissingKey::Address => Ok(format!("instead:{}", self.address).into_bytes()),
                };
            }
        }
        Ok(key)
    }

    /// Adds one part to a key.
    pub(crate) fn add<'p>(
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
mod tests {
    use super::*;
    use http::HeaderValue;
    use slidegate::Cost;
    use slidegate_http::ClientAddress;

    use crate::spec::MatchSpec;

    fn rule(key: Vec<KeyPart>, missing: MissingKey) -> RuleSpec {
        RuleSpec {
            name: "rule".to_owned(),
            matches: MatchSpec::default(),
            key,
            policy: "api".to_owned(),
            tier_header: None,
            cost: Cost::ONE,
            missing,
        }
    }

    fn key(rule: &RuleSpec, fields: &[(&'static str, &str)]) -> Result<String, Missing> {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_str(value).unwrap());
        }
        let original =
            OriginalRequest { method: "GET".into(), host: "shop.test".into(), path: "/a".into() };
        let address = ClientAddress::peer().key_of("2001:db8:1:2:3::4".parse().unwrap());
        let key = KeySource { address, original: &original }.key(rule, "/a*", &headers)?;
        Ok(String::from_utf8(key).unwrap())
    }

    fn header(name: &str) -> KeyPart {
        KeyPart::Header(name.to_owned())
    }

    #[test]
    fn every_part_names_its_kind() {
        let parts = vec![
            KeyPart::Address,
            header("X-Key"),
            KeyPart::Host,
            KeyPart::Method,
            KeyPart::Path,
            KeyPart::Constant("all".to_owned()),
        ];
        assert_eq!(
            key(&rule(parts, MissingKey::Skip), &[("x-key", "abc")]).unwrap(),
            "address=2001:db8:1:2::/64|header:x-key=abc|host=shop.test|method=GET|path=/a*|constant=all"
        );
    }

    // Otherwise one client could use up the limit of another.
    #[test]
    fn no_value_passes_for_another_part() {
        let one = rule(vec![header("a")], MissingKey::Address);
        let two = rule(vec![header("a"), header("b")], MissingKey::Skip);
        let forged = key(&one, &[("a", "1|header:b=2")]).unwrap();
        assert_ne!(forged, key(&two, &[("a", "1"), ("b", "2")]).unwrap());
        assert_eq!(forged, r"header:a=1\|header:b=2");
        let slash = key(&two, &[("a", r"1\"), ("b", "2")]).unwrap();
        assert_ne!(slash, key(&one, &[("a", r"1|header:b=2")]).unwrap());
        let fallback = key(&one, &[]).unwrap();
        assert_eq!(fallback, "instead:2001:db8:1:2::/64");
        assert_ne!(fallback, key(&rule(vec![KeyPart::Address], MissingKey::Skip), &[]).unwrap());
    }

    #[test]
    fn what_is_missing_or_too_long_goes_by_the_rule() {
        let long = "x".repeat(VALUE_MAX + 1);
        for fields in [&[][..], &[("a", "")], &[("a", long.as_str())]] {
            let key = |missing| key(&rule(vec![header("a")], missing), fields);
            assert_eq!(key(MissingKey::Skip), Err(Missing::Skip));
            assert_eq!(key(MissingKey::Deny), Err(Missing::Deny));
            assert!(key(MissingKey::Address).is_ok());
        }
    }
}
