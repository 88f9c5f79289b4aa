//! Tests of `rule`.

use super::*;
use http::HeaderValue;

fn original() -> OriginalRequest {
    OriginalRequest { method: "POST".into(), host: "shop.test".into(), path: "/login/form".into() }
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
