//! Whether a rule applies to a request, and why.

use slidegate_http::ClientAddress;

use crate::config::scenario::HttpRequest;
use crate::spec::{KeyPart, MissingKey, RuleSpec};

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

/// The longest value of a header that is part of a key.
const VALUE_MAX: usize = 1024;

/// Holds a request against a rule.
pub(super) fn meet(rule: &RuleSpec, request: &HttpRequest, addresses: &ClientAddress) -> Meeting {
    let mut reasons = Vec::new();
    for outcome in
        [host(rule, request), method(rule, request), headers(rule, request), path(rule, request)]
    {
        match outcome {
            Ok(Some(reason)) => reasons.push(reason),
            Ok(None) => {}
            Err(reason) => return Meeting::Passes(reason),
        }
    }
    let why = if reasons.is_empty() { "every request".to_owned() } else { reasons.join(", ") };
    let parts: Result<Vec<String>, String> =
        rule.key.iter().map(|part| part_of(part, rule, request, addresses)).collect();
    match (parts, rule.missing) {
        (Ok(parts), _) => Meeting::Counts { why, key: parts.join(" | ") },
        (Err(missing), MissingKey::Skip) => {
            Meeting::Passes(format!("{missing} (missing_key: skip)"))
        }
        (Err(missing), MissingKey::Deny) => {
            Meeting::Denies(format!("{missing} (missing_key: deny)"))
        }
        (Err(missing), MissingKey::Address) => {
            let key = format!("instead: {}", addresses.key_of(request.address));
            Meeting::Counts { why: format!("{why}; {missing} (missing_key: address)"), key }
        }
    }
}

/// The tier that a request has by a rule; one that comes twice is none.
pub(super) fn tier<'a>(rule: &'a RuleSpec, request: &'a HttpRequest) -> Option<&'a str> {
    let mut values = request.header(rule.tier_header.as_deref()?);
    values.next().filter(|_| values.next().is_none())
}

/// Why a part of the match holds, `None` if nothing is asked for; or why it does not.
type Outcome = Result<Option<String>, String>;

fn host(rule: &RuleSpec, request: &HttpRequest) -> Outcome {
    let same = |host: &str| host.eq_ignore_ascii_case(&request.host);
    one_of("host", &request.host, &rule.matches.hosts, same)
}

fn method(rule: &RuleSpec, request: &HttpRequest) -> Outcome {
    let same = |method: &str| method.eq_ignore_ascii_case(&request.method);
    one_of("method", &request.method, &rule.matches.methods, same)
}

fn path(rule: &RuleSpec, request: &HttpRequest) -> Outcome {
    one_of("path", &request.path, &rule.matches.paths, |pattern| is_path(pattern, &request.path))
}

fn one_of(what: &str, found: &str, wanted: &[String], same: impl Fn(&str) -> bool) -> Outcome {
    if wanted.is_empty() {
        return Ok(None);
    }
    match wanted.iter().find(|wanted| same(wanted)) {
        Some(wanted) => Ok(Some(format!("{what} {found} is {wanted}"))),
        None => Err(format!("{what} {found} is not {}", wanted.join(" or "))),
    }
}

fn headers(rule: &RuleSpec, request: &HttpRequest) -> Outcome {
    let mut reasons = Vec::new();
    for (name, wanted) in &rule.matches.headers {
        let mut values = request.header(name);
        let holds = match wanted {
            Some(wanted) => values.any(|value| value == wanted),
            None => values.next().is_some(),
        };
        let wanted = wanted.as_deref().unwrap_or("there");
        if !holds {
            return Err(format!("header {name} is not {wanted}"));
        }
        reasons.push(format!("header {name} is {wanted}"));
    }
    Ok((!reasons.is_empty()).then(|| reasons.join(", ")))
}

fn is_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern,
    }
}

/// A part of the key; or what is missing.
fn part_of(
    part: &KeyPart,
    rule: &RuleSpec,
    request: &HttpRequest,
    addresses: &ClientAddress,
) -> Result<String, String> {
    match part {
        KeyPart::Address => Ok(format!("address={}", addresses.key_of(request.address))),
        KeyPart::Header(name) => {
            // As forward auth joins them: nothing stands before the first that is not empty.
            let join =
                |all: String, value| if all.is_empty() { all + value } else { all + "," + value };
            let value = request.header(name).fold(String::new(), join);
            if value.is_empty() {
                return Err(format!("the request has no header {name}"));
            }
            if value.len() > VALUE_MAX {
                return Err(format!("the header {name} has more than {VALUE_MAX} bytes"));
            }
            Ok(format!("header:{name}={value}"))
        }
        KeyPart::Host if request.host.is_empty() => Err("the request has no host".to_owned()),
        KeyPart::Host => Ok(format!("host={}", request.host)),
        KeyPart::Method => Ok(format!("method={}", request.method)),
        KeyPart::Path => {
            let paths = &rule.matches.paths;
            let pattern = paths.iter().find(|pattern| is_path(pattern, &request.path));
            Ok(format!("path={}", pattern.map_or("*", String::as_str)))
        }
        KeyPart::Constant(text) => Ok(format!("constant={text}")),
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderName, HeaderValue};
    use proptest::prelude::*;
    use slidegate::Cost;

    use super::*;
    use crate::spec::MatchSpec;

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
            let served = crate::http::counted_by(
                &rule,
                [&request.method, &request.host, &request.path],
                addresses.key_of(request.address),
                &headers,
            );
            let explained = match meet(&rule, &request, &addresses) {
                Meeting::Counts { key, .. } => Some(key.replace(" | ", "|").replace(": ", ":")),
                Meeting::Passes(_) | Meeting::Denies(_) => None,
            };
            let served = served.map(|key| String::from_utf8(key).unwrap());
            prop_assert_eq!(explained, served);
        }
    }
}
