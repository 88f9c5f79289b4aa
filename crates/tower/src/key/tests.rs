//! Tests of `key`.

use super::*;
use http::Request;
use proptest::prelude::*;

fn key(by: &KeyBy, request: &Request<()>) -> Result<Vec<u8>, Absent> {
    let digest = Digest::new(&[7; 16]);
    by.of(&Head::of(request), &digest, true).map(|key| key.as_slice().to_vec())
}

fn with_header(name: &str, value: &str) -> Request<()> {
    Request::builder().header(name, value).body(()).unwrap()
}

// Every client with access to Redis could read a token that is stored there.
#[test]
fn credentials_are_hashed_by_default() {
    for name in ["authorization", "X-Api-Key", "cookie"] {
        let bytes = key(&KeyBy::header(name), &with_header(name, "s3cret-token")).unwrap();
        assert!(!bytes.windows(6).any(|window| window == b"s3cret"), "{name}");
    }
    let by = KeyBy::header("x-user");
    assert!(key(&by, &with_header("x-user", "alice")).unwrap().ends_with(b"alice"));
    let bytes = key(&by.secret(), &with_header("x-user", "alice")).unwrap();
    assert!(!bytes.ends_with(b"alice"));
}

// The size of keys must not depend on what a client sends.
#[test]
fn a_long_part_is_a_digest() {
    let long = "a".repeat(1 << 20);
    let by = KeyBy::header("x-user");
    let bytes = key(&by, &with_header("x-user", &long)).unwrap();
    assert!(bytes.len() < 64, "{}", bytes.len());
    let other = "a".repeat((1 << 20) - 1) + "b";
    assert_ne!(bytes, key(&by, &with_header("x-user", &other)).unwrap());
    let whole = "a".repeat(PART_MAX);
    assert_eq!(key(&by, &with_header("x-user", &whole)).unwrap().len(), PART_MAX + 3);
}

#[test]
fn a_part_that_is_missing_makes_the_key_missing() {
    let by = KeyBy::header("x-user").and(KeyBy::route());
    let request = with_header("x-user", "alice");
    assert_eq!(key(&by, &request), Err(Absent::Part));
    let mut request = with_header("x-user", "alice");
    request.extensions_mut().insert(crate::MatchedRoute::new("/users/{id}"));
    assert!(key(&by, &request).unwrap().ends_with(b"/users/{id}"));
    // An empty field counts as missing.
    let mut request = with_header("x-user", "");
    request.extensions_mut().insert(crate::MatchedRoute::new("/users/{id}"));
    assert_eq!(key(&by, &request), Err(Absent::Part));
    assert_eq!(key(&KeyBy::peer(), &request), Err(Absent::Peer));
}

// Counted by the peer instead, a client could get a second limit for each header that it repeats.
#[test]
fn a_field_with_several_values_is_denied_or_one_counts() {
    let by = KeyBy::header("x-user");
    let mut request = with_header("x-user", "alice");
    request.headers_mut().append("x-user", "bob".parse().unwrap());
    for request in [request, with_header("x-user", "alice,bob")] {
        assert_eq!(key(&by, &request), Err(Absent::Several));
        for (duplicates, name) in [(Duplicates::First, "alice"), (Duplicates::Last, "bob")] {
            let by = by.clone().duplicates(duplicates);
            assert_eq!(key(&by, &request), key(&by, &with_header("x-user", name)));
        }
    }
    let bearer =
        |value: &str| key(&KeyBy::header("authorization"), &with_header("authorization", value));
    assert_eq!(bearer("Bearer abc"), bearer("bearer  abc"));
}

#[test]
fn unknown_methods_share_a_key() {
    let of = |method: &str| {
        let request = Request::builder().method(method).body(()).unwrap();
        key(&KeyBy::method(), &request).unwrap()
    };
    assert_ne!(of("GET"), of("POST"));
    assert_eq!(of("FOO"), of("BAR"));
}

proptest! {
    #[test]
    fn addresses_match_the_http_crate(bits: u128, v4: u32, mapped: bool) {
        let v6 = if mapped { 0xffff_0000_0000 | u128::from(v4) } else { bits };
        let translated = (0x64_ff9b_u128 << 96) | u128::from(v4);
        for address in [
            IpAddr::from(v4.to_be_bytes()),
            IpAddr::from(v6.to_be_bytes()),
            IpAddr::from(translated.to_be_bytes()),
        ] {
            let expected = ClientAddress::peer().key_of(address);
            with_address(address, |bytes| assert_eq!(bytes, expected.as_bytes()));
        }
    }

    // User and endpoint: different pairs must not collide.
    #[test]
    fn different_pairs_have_different_keys(a in "[ab:/]{1,4}", b in "[ab:/]{1,4}", c in "[ab:/]{1,4}", d in "[ab:/]{1,4}") {
        let by = KeyBy::header("x-one").and(KeyBy::header("x-two"));
        let of = |one: &str, two: &str| {
            let request = Request::builder().header("x-one", one).header("x-two", two);
            key(&by, &request.body(()).unwrap()).unwrap()
        };
        prop_assert_eq!(of(&a, &b) == of(&c, &d), a == c && b == d);
    }
}
