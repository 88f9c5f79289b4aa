//! Matches requests with rules.

use http::HeaderMap;

use super::original::OriginalRequest;
use crate::spec::MatchSpec;

/// The matching values: the first match of the hosts, methods and paths of a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Matched<'a> {
    pub(crate) host: Option<&'a str>,
    pub(crate) method: Option<&'a str>,
    pub(crate) path: Option<&'a str>,
}

/// The first part of a request that does not match a rule.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Mismatch<'a> {
    Host,
    Method,
    /// A name, and the required value, or `None` for any.
    Header(&'a str, Option<&'a str>),
    Path,
}

/// Matches a request with a rule.
pub(crate) fn matches<'a>(
    wanted: &'a MatchSpec,
    original: &OriginalRequest,
    headers: &HeaderMap,
) -> Result<Matched<'a>, Mismatch<'a>> {
    let is_host = |host: &str| host.eq_ignore_ascii_case(&original.host);
    let is_method = |method: &str| method.eq_ignore_ascii_case(&original.method);
    let host = one_of(&wanted.hosts, is_host, Mismatch::Host)?;
    let method = one_of(&wanted.methods, is_method, Mismatch::Method)?;
    for (name, value) in &wanted.headers {
        if !has(headers, name, value.as_deref()) {
            return Err(Mismatch::Header(name, value.as_deref()));
        }
    }
    let is_path = |pattern: &str| is_path(pattern, &original.path);
    Ok(Matched { host, method, path: one_of(&wanted.paths, is_path, Mismatch::Path)? })
}

/// Returns the first match. Returns `None` if the rule names none, which matches everything.
fn one_of<'a>(
    wanted: &'a [String],
    fits: impl Fn(&str) -> bool,
    mismatch: Mismatch<'a>,
) -> Result<Option<&'a str>, Mismatch<'a>> {
    match wanted.iter().map(String::as_str).find(|wanted| fits(wanted)) {
        None if !wanted.is_empty() => Err(mismatch),
        found => Ok(found),
    }
}

impl<'a> Matched<'a> {
    /// Returns the matching path pattern, or `*` if the rule has none.
    pub(crate) fn pattern(&self) -> &'a str {
        self.path.unwrap_or("*")
    }
}

fn is_path(pattern: &str, path: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(start) => path.starts_with(start),
        None => path == pattern,
    }
}

fn has(headers: &HeaderMap, name: &str, value: Option<&str>) -> bool {
    let mut values = headers.get_all(name).into_iter();
    match value {
        Some(wanted) => values.any(|value| value.as_bytes() == wanted.as_bytes()),
        None => values.next().is_some(),
    }
}

/// Returns the value of a field that occurs exactly once, as text.
pub(crate) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
