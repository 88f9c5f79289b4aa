//! Tests of `rule`.

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
    (some(&["h", "i"]), some(&["GET", "POST"]), paths, headers)
        .prop_map(|(hosts, methods, paths, headers)| MatchSpec { paths, methods, hosts, headers })
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
    (a_match(), prop::collection::vec(part, 1..4), missing).prop_map(|(matches, key, missing)| {
        RuleSpec {
            name: "rule".to_owned(),
            matches,
            key,
            policy: "api".to_owned(),
            tier_header: None,
            cost: Cost::ONE,
            missing,
        }
    })
}

fn a_request() -> impl Strategy<Value = HttpRequest> {
    let word = |words: &'static [&'static str]| prop::sample::select(words).prop_map(str::to_owned);
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
