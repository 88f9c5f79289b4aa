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
    let path = wanted.path_patterns().find(|pattern| pattern.matches(&original.path));
    if path.is_none() && !wanted.paths.is_empty() {
        return Err(Mismatch::Path);
    }
    Ok(Matched { host, method, path: path.map(|pattern| pattern.as_str()) })
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

/// Returns `true` if a line of the field, or one of the values that a proxy has joined in it, is as
/// wanted. So a client cannot hide a value among others.
fn has(headers: &HeaderMap, name: &str, value: Option<&str>) -> bool {
    let mut lines = headers.get_all(name).into_iter().map(|line| line.as_bytes().trim_ascii());
    match value.map(str::as_bytes) {
        Some(wanted) => lines.any(|line| {
            let mut values = line.split(|byte| *byte == b',');
            line == wanted || values.any(|value| value.trim_ascii() == wanted)
        }),
        None => lines.next().is_some(),
    }
}

#[cfg(test)]
mod tests;
