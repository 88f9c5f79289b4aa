//! Whether a rule applies to a request, and why.

use http::{HeaderMap, HeaderName, HeaderValue};
use slidegate_http::{AddressKey, ClientAddress};

use crate::config::scenario::HttpRequest;
use crate::http::auth::{KeySource, Mismatch, OriginalRequest, matches, only};
use crate::spec::{MissingKey, RuleSpec};

/// What a rule makes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Meeting {
    /// It does not apply, because.
    Passes(String),
    /// It applies, because; and the request is counted by this key.
    Counts { why: String, key: String },
    /// It applies, and denies, because the key cannot be made.
    Denies(String),
}

/// A request as forward auth sees it.
#[derive(Debug)]
pub(super) struct AuthRequest {
    original: OriginalRequest,
    address: AddressKey,
    pub(super) headers: HeaderMap,
}

impl AuthRequest {
    pub(super) fn new(request: &HttpRequest, addresses: &ClientAddress) -> Self {
        let HttpRequest { method, host, path, address, headers } = request.clone();
        // What is not a header cannot be sent to the daemon either.
        let header = |(name, value): (String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        let mut fields = HeaderMap::new();
        for (name, value) in headers.into_iter().filter_map(header) {
            fields.append(name, value);
        }
        let original = OriginalRequest { method, host, path };
        Self { original, address: addresses.key_of(address), headers: fields }
    }

    pub(super) fn source(&self) -> KeySource<'_> {
        KeySource { address: self.address, original: &self.original }
    }

    /// Holds the request against a rule.
    pub(super) fn meet(&self, rule: &RuleSpec) -> Meeting {
        let OriginalRequest { method, host, path } = &self.original;
        let wanted = &rule.matches;
        let matched = match matches(wanted, &self.original, &self.headers) {
            Ok(matched) => matched,
            Err(mismatch) => {
                let none_of = |what: &str, found: &str, wanted: &[String]| {
                    format!("{what} {found} is not {}", wanted.join(" or "))
                };
                return Meeting::Passes(match mismatch {
                    Mismatch::Host => none_of("host", host, &wanted.hosts),
                    Mismatch::Method => none_of("method", method, &wanted.methods),
                    Mismatch::Path => none_of("path", path, &wanted.paths),
                    Mismatch::Header(name, value) => {
                        format!("header {name} is not {}", value.unwrap_or("there"))
                    }
                });
            }
        };
        let is = |what: &str, found: &str, wanted: &str| format!("{what} {found} is {wanted}");
        let mut reasons = Vec::new();
        reasons.extend(matched.host.map(|wanted| is("host", host, wanted)));
        reasons.extend(matched.method.map(|wanted| is("method", method, wanted)));
        for (name, value) in &wanted.headers {
            reasons.push(is("header", name, value.as_deref().unwrap_or("there")));
        }
        reasons.extend(matched.path.map(|wanted| is("path", path, wanted)));
        let why = if reasons.is_empty() { "every request".to_owned() } else { reasons.join(", ") };
        self.count(rule, matched.pattern(), why)
    }

    /// The key of a rule that applies.
    fn count(&self, rule: &RuleSpec, pattern: &str, why: String) -> Meeting {
        let source = self.source();
        let mut key = Vec::new();
        for part in &rule.key {
            if !key.is_empty() {
                key.extend_from_slice(b" | ");
            }
            let Err(lack) = source.add(part, pattern, &self.headers, &mut key) else { continue };
            let lacks = format!("{lack} (missing_key: {})", rule.missing.name());
            return match rule.missing {
                MissingKey::Skip => Meeting::Passes(lacks),
                MissingKey::Deny => Meeting::Denies(lacks),
                MissingKey::Address => {
                    let key = format!("instead: {}", self.address);
                    Meeting::Counts { why: format!("{why}; {lacks}"), key }
                }
            };
        }
        Meeting::Counts { why, key: String::from_utf8_lossy(&key).into_owned() }
    }

    /// The tier that the request has by a rule; a header that comes twice names none.
    pub(super) fn tier(&self, rule: &RuleSpec) -> Option<&str> {
        only(&self.headers, rule.tier_header.as_deref()?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use slidegate::Cost;

    use super::*;
    use crate::spec::{KeyPart, MatchSpec};

    fn some(words: &'static [&'static str]) -> impl Strategy<Value = Vec<String>> {
        let word = prop::sample::select(words).prop_map(str::to_owned);
        prop::collection::vec(word, 0..3)
    }

    fn a_header() -> impl Strategy<Value = (String, String)> {
        let name = prop::sample::select(&["x-a", "x-b"][..]);
        let value = prop::sample::select(&["1", "2", ""][..]);
        (name, value).prop_map(|(name, value)| (name.to_owned(), value.to_owned()))
    }

    fn a_match() -> impl Strategy<Value = MatchSpec> {
        let header = (a_header(), any::<bool>())
            .prop_map(|((name, value), is_any)| (name, (!is_any).then_some(value)));
        let headers = prop::collection::vec(header, 0..2);
        let paths = some(&["/a", "/a/*", "/*", "/b"]);
        (some(&["h", "i"]), some(&["GET", "POST"]), paths, headers).prop_map(
            |(hosts, methods, paths, headers)| MatchSpec { paths, methods, hosts, headers },
        )
    }

    fn a_rule() -> impl Strategy<Value = RuleSpec> {
        let part = prop::sample::select(vec![
            KeyPart::Address,
            KeyPart::Header("x-a".to_owned()),
            KeyPart::Host,
            KeyPart::Method,
            KeyPart::Path,
            KeyPart::Constant("all".to_owned()),
        ]);
        let missing =
            prop::sample::select(vec![MissingKey::Skip, MissingKey::Deny, MissingKey::Address]);
        (a_match(), prop::collection::vec(part, 1..4), missing).prop_map(
            |(matches, key, missing)| RuleSpec {
                name: "rule".to_owned(),
                matches,
                key,
                policy: "api".to_owned(),
                tier_header: None,
                cost: Cost::ONE,
                missing,
            },
        )
    }

    fn a_request() -> impl Strategy<Value = HttpRequest> {
        let word =
            |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
        let headers = prop::collection::vec(a_header(), 0..3);
        (word(&["GET", "POST"]), word(&["/a", "/a/b", "/b", "/c"]), word(&["h", "i", ""]), headers)
            .prop_map(|(method, path, host, headers)| HttpRequest {
                method,
                host,
                headers,
                ..HttpRequest::get(&path)
            })
    }

    proptest! {
        // What is explained is what the daemon does: it applies to the same requests, and counts
        // them by the same parts.
        #[test]
        fn as_forward_auth_does(rule in a_rule(), request in a_request()) {
            let addresses = ClientAddress::peer();
            let mut headers = HeaderMap::new();
            for (name, value) in &request.headers {
                let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, HeaderValue::from_str(value).unwrap());
            }
            let served = crate::http::auth::counted_by(
                &rule,
                [&request.method, &request.host, &request.path],
                addresses.key_of(request.address),
                &headers,
            );
            let explained = match AuthRequest::new(&request, &addresses).meet(&rule) {
                Meeting::Counts { key, .. } => Some(key.replace(" | ", "|").replace(": ", ":")),
                Meeting::Passes(_) | Meeting::Denies(_) => None,
            };
            let served = served.map(|key| String::from_utf8(key).unwrap());
            prop_assert_eq!(explained, served);
        }
    }
}
