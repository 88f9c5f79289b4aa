//! Tests of `access`.

use super::*;

const TOKEN: &str = "0123456789abcdef";

fn peer(address: &str, is_verified: bool) -> Peer {
    Peer { address: address.parse().unwrap(), is_verified }
}

fn status(access: &Access, peer: &Peer, authorization: Option<&str>) -> u16 {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    access.check(peer, &headers).map_or_else(|error| error.status().as_u16(), |()| 200)
}

#[test]
fn only_loopback_is_open_without_a_proof() {
    for (address, token, mtls, may) in [
        ("127.0.0.1:1", false, false, true),
        ("127.9.9.9:1", false, false, true),
        ("[::1]:1", false, false, true),
        ("[::ffff:127.0.0.1]:1", false, false, true),
        ("0.0.0.0:1", false, false, false),
        ("[::]:1", false, false, false),
        ("192.0.2.1:1", false, false, false),
        ("0.0.0.0:1", true, false, true),
        ("0.0.0.0:1", false, true, true),
    ] {
        let answer = may_listen(address.parse().unwrap(), token, mtls);
        assert_eq!(answer.is_ok(), may, "{address} {token} {mtls}");
    }
}

#[test]
fn without_a_token_the_peer_decides() {
    let open = Access::local();
    assert_eq!(status(&open, &peer("127.0.0.1:9", false), None), 200);
    assert_eq!(status(&open, &peer("[::1]:9", false), None), 200);
    assert_eq!(status(&open, &peer("192.0.2.1:9", false), None), 403);
    assert_eq!(status(&open, &peer("192.0.2.1:9", false), Some("Bearer x")), 403);
    assert_eq!(status(&open, &peer("192.0.2.1:9", true), None), 200);
}

#[test]
fn with_a_token_nothing_else_does() {
    let access = Access::token(&format!("{TOKEN}\n")).unwrap();
    for peer in [peer("127.0.0.1:9", false), peer("192.0.2.1:9", true)] {
        assert_eq!(status(&access, &peer, Some(&format!("Bearer {TOKEN}"))), 200);
        assert_eq!(status(&access, &peer, Some(&format!("bearer  {TOKEN}"))), 200);
        for wrong in [
            None,
            Some(""),
            Some(TOKEN),
            Some("Bearer "),
            Some("Bearer 0123456789abcdeF"),
            Some("Bearer 1123456789abcdef"),
            Some("Bearer 0123456789abcde"),
            Some("Bearer 0123456789abcdef0"),
            Some("Basic 0123456789abcdef"),
        ] {
            assert_eq!(status(&access, &peer, wrong), 401, "{wrong:?}");
        }
    }
}

#[test]
fn tokens_that_protect_nothing_are_refused_and_none_is_shown() {
    assert!(Access::token("").is_err());
    assert!(Access::token("short").is_err());
    assert!(Access::token("0123456789 abcdef").is_err());
    assert!(!format!("{:?}", Access::token(TOKEN).unwrap()).contains(TOKEN));
}

#[test]
fn a_foreign_page_is_told_by_its_origin() {
    let check = |origin: Option<&'static str>| {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, HeaderValue::from_static("127.0.0.1:9090"));
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_static(origin));
        }
        check_origin(&headers).is_ok()
    };
    assert!(check(None));
    assert!(check(Some("http://127.0.0.1:9090")));
    assert!(!check(Some("http://evil.test")));
    assert!(!check(Some("null")));
    assert!(!check(Some("http://127.0.0.1:9091")));
}
