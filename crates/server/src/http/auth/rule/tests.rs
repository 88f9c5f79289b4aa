//! Tests of `rule`.

use super::*;
use http::HeaderValue;
use slidegate_http::RequestPath;

use crate::spec::PathMatch;

fn original() -> OriginalRequest {
    OriginalRequest {
        method: "POST".into(),
        host: "shop.test".into(),
        path: RequestPath::new("/login/form"),
    }
}

fn found(wanted: &MatchSpec) -> Option<&str> {
    let mut headers = HeaderMap::new();
    headers.append("x-plan", HeaderValue::from_static("free"));
    headers.append("x-plan", HeaderValue::from_static("gold"));
    matches(wanted, &original(), &headers).ok().map(|matched| matched.pattern())
}

#[test]
fn an_empty_match_matches_everything() {
    assert_eq!(found(&MatchSpec::default()), Some("*"));
}

#[test]
fn matches_one_of_each_list_and_all_headers() {
    let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
    let plan = |value: Option<&str>| ("X-Plan".to_owned(), value.map(str::to_owned));
    let all = MatchSpec {
        hosts: texts(&["other.test", "SHOP.test"]),
        methods: texts(&["PUT", "post"]),
        paths: texts(&["/login", "/login/*", "/*"]),
        headers: vec![plan(Some("gold")), plan(None)],
        ..MatchSpec::default()
    };
    assert_eq!(found(&all), Some("/login/*"));
    let any_case = MatchSpec { paths: texts(&["/Login/*"]), ignore_case: true, ..all.clone() };
    assert_eq!(found(&any_case), Some("/Login/*"));
    for not in [
        MatchSpec { hosts: texts(&["test"]), ..all.clone() },
        MatchSpec { methods: texts(&["GET"]), ..all.clone() },
        MatchSpec { paths: texts(&["/login", "/Login/*"]), ..all.clone() },
        MatchSpec { paths: texts(&["/login/form/"]), path_match: PathMatch::Exact, ..all.clone() },
        MatchSpec { headers: vec![plan(Some("GOLD"))], ..all.clone() },
        MatchSpec { headers: vec![("x-other".to_owned(), None)], ..all.clone() },
        MatchSpec { headers: vec![("not a name".to_owned(), None)], ..all },
    ] {
        assert_eq!(found(&not), None, "{not:?}");
    }
}

// A client must not hide the value that a proxy adds.
#[test]
fn joined_values_match_each() {
    let wanted = MatchSpec {
        headers: vec![("x-plan".to_owned(), Some("free".to_owned()))],
        ..MatchSpec::default()
    };
    for line in ["free", "gold, free", "free,gold"] {
        let mut headers = HeaderMap::new();
        headers.append("x-plan", HeaderValue::from_static(line));
        assert!(matches(&wanted, &original(), &headers).is_ok(), "{line}");
    }
}
