//! Whether a rule applies to a request, and why.

use http::{HeaderMap, HeaderName, HeaderValue};
use slidegate_http::{AddressKey, RequestPath};

use crate::config::Settings;
use crate::config::scenario::HttpRequest;
use crate::http::auth::{
    KeySource, Mismatch, NoPart, OriginalRequest, RuleKey, matches, tier_name,
};
use crate::spec::RuleSpec;

/// The result of a rule for a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum RuleMatch {
    /// The rule does not apply, for this reason.
    Passes(String),
    /// The rule applies, for this reason, and the request is counted by this key.
    Counts { why: String, key: String },
    /// The rule applies and denies, because the key cannot be created.
    Denies(String),
}

/// A request in the form of forward auth.
#[derive(Debug)]
pub(in crate::cli) struct AuthRequest {
    original: OriginalRequest,
    address: AddressKey,
    value_max: usize,
    pub(in crate::cli) headers: HeaderMap,
}

impl AuthRequest {
    pub(in crate::cli) fn new(request: &HttpRequest, settings: &Settings) -> Self {
        let HttpRequest { method, host, path, address, headers } = request.clone();
        // An invalid header cannot be sent to the daemon either.
        let header = |(name, value): (String, String)| {
            Some((HeaderName::try_from(name).ok()?, HeaderValue::try_from(value).ok()?))
        };
        let mut fields = HeaderMap::new();
        for (name, value) in headers.into_iter().filter_map(header) {
            fields.append(name, value);
        }
        let original = OriginalRequest { method, host, path: RequestPath::new(&path) };
        let address = settings.address.key_of(address);
        Self { original, address, headers: fields, value_max: settings.limits.key_max }
    }

    pub(in crate::cli) fn source(&self) -> KeySource<'_> {
        let Self { address, original, value_max, .. } = self;
        KeySource { address: *address, original, value_max: *value_max }
    }

    /// Evaluates a rule for the request.
    pub(super) fn match_rule(&self, rule: &RuleSpec) -> RuleMatch {
        let OriginalRequest { method, host, path } = &self.original;
        let path = path.as_sent();
        let wanted = &rule.matches;
        let matched = match matches(wanted, &self.original, &self.headers) {
            Ok(matched) => matched,
            Err(mismatch) => {
                let none_of = |what: &str, found: &str, wanted: &[String]| {
                    format!("{what} {found} is not {}", wanted.join(" or "))
                };
                return RuleMatch::Passes(match mismatch {
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
        let shown = |key: Vec<u8>| String::from_utf8_lossy(&key).into_owned();
        let lacks = |lack| match lack {
            NoPart::Several(_) => format!("{lack} (duplicates: deny)"),
            _ => format!("{lack} (missing_key: {})", rule.missing.name()),
        };
        match self.source().key(rule, matched.pattern(), &self.headers) {
            RuleKey::Key(key) => RuleMatch::Counts { why, key: shown(key) },
            RuleKey::Instead(key, lack) => {
                RuleMatch::Counts { why: format!("{why}; {}", lacks(lack)), key: shown(key) }
            }
            RuleKey::Skip(lack) => RuleMatch::Passes(lacks(lack)),
            RuleKey::Deny(lack) => RuleMatch::Denies(lacks(lack)),
        }
    }

    /// Returns the tier of the request in a rule.
    pub(super) fn tier(&self, rule: &RuleSpec) -> Option<String> {
        tier_name(rule, &self.headers).ok().flatten()
    }
}
