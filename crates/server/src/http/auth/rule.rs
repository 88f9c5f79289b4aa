//! Matches requests with rules.

use http::HeaderMap;

use super::original::OriginalRequest;
use crate::spec::MatchSpec;

/// Returns the path pattern that matched, `*` if the rule has none, or `None` if the rule does not match.
pub(super) fn matches<'a>(
    wanted: &'a MatchSpec,
    original: &OriginalRequest,
    headers: &HeaderMap,
) -> Option<&'a str> {
    let is_host = |host: &String| host.eq_ignore_ascii_case(&original.host);
    let is_method = |method: &String| method.eq_ignore_ascii_case(&original.method);
    if !(wanted.hosts.is_empty() || wanted.hosts.iter().any(is_host))
        || !(wanted.methods.is_empty() || wanted.methods.iter().any(is_method))
        || !wanted.headers.iter().all(|(name, value)| has(headers, name, value.as_deref()))
    {
        return None;
    }
    if wanted.paths.is_empty() {
        return Some("*");
    }
    wanted.paths.iter().map(String::as_str).find(|pattern| is_path(pattern, &original.path))
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

/// The value of a field that occurs exactly once, as text.
pub(super) fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).into_iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn original() -> OriginalRequest {
        OriginalRequest {
            method: "POST".into(),
            host: "shop.test".into(),
            path: "/login/form".into(),
        }
    }

    fn found(wanted: &MatchSpec) -> Option<&str> {
        let mut headers = HeaderMap::new();
        headers.append("x-plan", HeaderValue::from_static("free"));
        headers.append("x-plan", HeaderValue::from_static("gold"));
        matches(wanted, &original(), &headers)
    }

    #[test]
    fn nothing_asked_for_matches_everything() {
        assert_eq!(found(&MatchSpec::default()), Some("*"));
    }

    #[test]
    fn one_of_each_and_all_of_the_headers() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let plan = |value: Option<&str>| ("X-Plan".to_owned(), value.map(str::to_owned));
        let all = MatchSpec {
            hosts: texts(&["other.test", "SHOP.test"]),
            methods: texts(&["PUT", "post"]),
            paths: texts(&["/login", "/login/*", "/*"]),
            headers: vec![plan(Some("gold")), plan(None)],
        };
        assert_eq!(found(&all), Some("/login/*"));
        for not in [
            MatchSpec { hosts: texts(&["test"]), ..all.clone() },
            MatchSpec { methods: texts(&["GET"]), ..all.clone() },
            MatchSpec { paths: texts(&["/login", "/Login/*"]), ..all.clone() },
            MatchSpec { headers: vec![plan(Some("GOLD"))], ..all.clone() },
            MatchSpec { headers: vec![("x-other".to_owned(), None)], ..all.clone() },
            MatchSpec { headers: vec![("not a name".to_owned(), None)], ..all },
        ] {
            assert_eq!(found(&not), None, "{not:?}");
        }
    }
}
