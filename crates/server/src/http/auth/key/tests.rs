//! Tests of `key`.

use super::*;
use http::HeaderValue;
use slidegate::Cost;
use slidegate_http::{ClientAddress, Duplicates, RequestPath};

use crate::spec::MatchSpec;

const VALUE_MAX: usize = 100;

fn rule(key: Vec<KeyPart>, missing: MissingKey) -> RuleSpec {
    RuleSpec {
        name: "rule".to_owned(),
        matches: MatchSpec::default(),
        key,
        policy: "api".to_owned(),
        tier_header: None,
        cost: Cost::ONE,
        missing,
        ..RuleSpec::default()
    }
}

/// Returns the key of a request, or the reason for none.
fn key(rule: &RuleSpec, fields: &[(&'static str, &str)]) -> Result<String, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    let original = OriginalRequest {
        method: "GET".into(),
        host: "shop.test".into(),
        path: RequestPath::new("/a"),
    };
    let address = ClientAddress::peer().key_of("2001:db8:1:2:3::4".parse().unwrap());
    match (KeySource { address, original: &original, value_max: VALUE_MAX })
        .key(rule, "/a*", &headers)
    {
        RuleKey::Key(key) | RuleKey::Instead(key, _) => Ok(String::from_utf8(key).unwrap()),
        RuleKey::Skip(lack) => Err(format!("skipped: {lack}")),
        RuleKey::Deny(lack) => Err(format!("denied: {lack}")),
    }
}

fn header(name: &str) -> KeyPart {
    KeyPart::Header(name.to_owned())
}

#[test]
fn every_part_names_its_kind() {
    let parts = vec![
        KeyPart::Address,
        header("X-Key"),
        KeyPart::Host,
        KeyPart::Method,
        KeyPart::Path,
        KeyPart::Constant("all".to_owned()),
    ];
    assert_eq!(
        key(&rule(parts, MissingKey::Skip), &[("x-key", "abc")]).unwrap(),
        "address=2001:db8:1:2::/64|header:x-key=abc|host=shop.test|method=GET|path=/a*|constant=all"
    );
}

// Otherwise one client could use up the limit of another.
#[test]
fn no_value_imitates_another_part() {
    let one = rule(vec![header("a")], MissingKey::Address);
    let two = rule(vec![header("a"), header("b")], MissingKey::Skip);
    let forged = key(&one, &[("a", "1|header:b=2")]).unwrap();
    assert_ne!(forged, key(&two, &[("a", "1"), ("b", "2")]).unwrap());
    assert_eq!(forged, r"header:a=1\|header:b=2");
    let slash = key(&two, &[("a", r"1\"), ("b", "2")]).unwrap();
    assert_ne!(slash, key(&one, &[("a", r"1|header:b=2")]).unwrap());
    let fallback = key(&one, &[]).unwrap();
    assert_eq!(fallback, "instead:2001:db8:1:2::/64");
    assert_ne!(fallback, key(&rule(vec![KeyPart::Address], MissingKey::Skip), &[]).unwrap());
}

#[test]
fn missing_headers_follow_the_rule() {
    for fields in [&[][..], &[("a", "")]] {
        let key = |missing| key(&rule(vec![header("a")], missing), fields);
        assert!(key(MissingKey::Skip).unwrap_err().starts_with("skipped: the "));
        assert!(key(MissingKey::Deny).unwrap_err().starts_with("denied: the "));
        assert!(key(MissingKey::Address).is_ok());
    }
}

// If the rule did not apply, a client could lift its limit with a long value.
#[test]
fn long_values_are_counted_by_their_digest() {
    let of = |value: &str| {
        let key = key(&rule(vec![header("A"), KeyPart::Method], MissingKey::Skip), &[("a", value)]);
        key.unwrap()
    };
    let longest = "x".repeat(VALUE_MAX);
    assert_eq!(of(&longest), format!("header:a={longest}|method=GET"));
    let digest = of(&(longest.clone() + "x"));
    assert!(digest.starts_with("digest:header:a="), "{digest}");
    assert_eq!(digest.len(), "digest:header:a=|method=GET".len() + 64);
    assert_ne!(digest, of(&(longest + "y")));
}

// A second key for each of these would lift the limit of one. `missing_key` is not asked: with
// `skip` or `address` a client could choose to be counted elsewhere.
#[test]
fn several_values_are_denied_or_one_of_them_counts() {
    let fields = [("a", "1"), ("a", "2")];
    for missing in MissingKey::ALL {
        let mut rule = rule(vec![header("A")], missing);
        let denied = "denied: the header A has several values: send it once";
        assert_eq!(key(&rule, &fields).unwrap_err(), denied);
        assert_eq!(key(&rule, &[("a", "1,2")]).unwrap_err(), denied);
        rule.duplicates = Duplicates::First;
        assert_eq!(key(&rule, &fields).unwrap(), "header:a=1");
        rule.duplicates = Duplicates::Last;
        assert_eq!(key(&rule, &fields).unwrap(), "header:a=2");
        rule.commas = Commas::Keep;
        assert_eq!(key(&rule, &[("a", "CN=x,O=y")]).unwrap(), "header:a=CN=x,O=y");
    }
}

#[test]
fn a_tier_of_several_is_denied() {
    let mut rule = rule(vec![KeyPart::Address], MissingKey::Skip);
    rule.tier_header = Some("x-plan".to_owned());
    assert!(key(&rule, &[("x-plan", "gold")]).is_ok());
    assert!(key(&rule, &[("x-plan", "gold"), ("x-plan", "none")]).is_err());
    let mut headers = HeaderMap::new();
    headers.append("x-plan", HeaderValue::from_static("gold, none"));
    assert!(tier_name(&rule, &headers).is_err());
    rule.duplicates = Duplicates::First;
    assert_eq!(tier_name(&rule, &headers).unwrap().as_deref(), Some("gold"));
}

// A client can invent methods.
#[test]
fn unknown_methods_share_a_key() {
    assert_eq!([method("GET"), method("FOO1"), method("FOO2")], ["GET", "other", "other"]);
}
