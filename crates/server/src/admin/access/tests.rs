//! Tests of `access`.

use http::HeaderValue;
use http::header::AUTHORIZATION;

use super::*;

const TOKEN: &str = "0123456789abcdef";

fn peer(address: &str, is_verified: bool) -> Peer {
    Peer { address: address.parse().unwrap(), activity: Arc::default(), is_verified }
}

fn status(access: &Access, peer: &Peer, authorization: Option<&str>) -> u16 {
    let mut headers = HeaderMap::new();
    if let Some(value) = authorization {
        headers.insert(AUTHORIZATION, HeaderValue::from_str(value).unwrap());
    }
    access
        .check(peer, &Uri::from_static("/metrics"), &headers)
        .map_or_else(|error| error.status().as_u16(), |()| 200)
}

#[test]
fn only_loopback_is_open_without_authentication() {
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
fn with_a_token_only_the_token_decides() {
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
fn weak_tokens_are_rejected_and_not_shown() {
    assert!(Access::token("").is_err());
    assert!(Access::token("short").is_err());
    assert!(Access::token("0123456789 abcdef").is_err());
    assert!(!format!("{:?}", Access::token(TOKEN).unwrap()).contains(TOKEN));
}

#[test]
fn a_replaced_token_is_refused_at_once() {
    let access = Access::token(TOKEN).unwrap();
    let (running, peer) = (access.clone(), peer("192.0.2.1:9", false));
    let old = Some("Bearer 0123456789abcdef");
    assert_eq!(status(&running, &peer, old), 200);
    access.set(Some(Token::new(b"another-token-0123").unwrap()));
    assert_eq!(status(&running, &peer, old), 401);
    assert_eq!(status(&running, &peer, Some("Bearer another-token-0123")), 200);
}

#[test]
fn without_a_token_requests_of_foreign_pages_are_refused() {
    let ask = |access: &Access, fields: &[(&'static str, &'static str)]| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, HeaderValue::from_static(value));
        }
        let uri = Uri::from_static("/-/reload");
        let checked = access.check(&peer("127.0.0.1:9", false), &uri, &headers);
        checked.map_or_else(|error| error.status().as_u16(), |()| 200)
    };
    let local = Access::local().names(HostNames::new(&[], true));
    assert_eq!(ask(&local, &[("host", "127.0.0.1:9090")]), 200);
    let rebound = [("host", "evil.test:9090"), ("origin", "http://evil.test:9090")];
    assert_eq!(ask(&local, &rebound), 403);
    let foreign = [("host", "localhost:9090"), ("origin", "http://evil.test")];
    assert_eq!(ask(&local, &foreign), 403);
    let named = Access::local().names(HostNames::new(&["admin.internal".to_owned()], true));
    assert_eq!(ask(&named, &[("host", "admin.internal:9090")]), 200);
    // A token is proof enough, whatever a proxy makes of the name.
    let token = Access::token(TOKEN).unwrap();
    let sent = ("authorization", "Bearer 0123456789abcdef");
    assert_eq!(ask(&token, &[("host", "admin.internal"), sent]), 200);
}
