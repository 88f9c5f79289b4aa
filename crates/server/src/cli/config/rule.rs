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
            let value = request.header(name).collect::<Vec<_>>().join(",");
            if value.is_empty() {
                return Err(format!("the request has no header {name}"));
            }
            Ok(format!("header:{name}={value}"))
        }
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
