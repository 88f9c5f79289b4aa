//! Tests of `access`.

use http::{HeaderValue, Uri};

use super::*;

const APP: &[u8] = b"app-0123456789abcdef";
const OPS: &[u8] = b"ops-0123456789abcdef";

fn access(exposure: Exposure, anonymous: Option<Scopes>) -> Access {
    let token = |text| Token::new(text).unwrap();
    let tokens = vec![(token(APP), Scopes::CHECK), (token(OPS), Scopes::ALL)];
    Access::new(Arc::new(ArcSwap::from_pointee(AccessRules { tokens, anonymous })), exposure)
}

fn untokened(exposure: Exposure) -> Access {
    Access::new(SharedRules::default(), exposure)
}

/// What may be done: checks, looks and changes, in order.
fn may(access: &Access, token: Option<&[u8]>) -> [bool; 3] {
    Scope::ALL.map(|scope| access.check(scope, token).is_ok())
}

#[test]
fn without_tokens_everything_is_open_on_loopback_and_only_checks_beyond() {
    assert_eq!(may(&untokened(Exposure::Loopback), None), [true; 3]);
    assert_eq!(may(&untokened(Exposure::Verified), None), [true; 3]);
    let network = untokened(Exposure::Network);
    assert_eq!(may(&network, None), [true, false, false]);
    assert_eq!(network.check(Scope::Change, None), Err(AccessError::Off(Scope::Change)));
    // A token that is meant for another service does not matter.
    assert_eq!(may(&network, Some(APP)), [true, false, false]);
    assert_eq!(network.log_in(APP), Err(None));
}

#[test]
fn a_token_allows_its_scopes_wherever_it_comes_from() {
    for exposure in [Exposure::Loopback, Exposure::Network] {
        let access = access(exposure, None);
        assert_eq!(may(&access, None), [true, false, false]);
        assert_eq!(may(&access, Some(APP)), [true, false, false]);
        assert_eq!(may(&access, Some(OPS)), [true; 3]);
        assert_eq!(may(&access, Some(b"app-0123456789abcdeF")), [false; 3]);
        assert_eq!(access.check(Scope::Look, None), Err(AccessError::TokenNeeded(Scope::Look)));
        assert_eq!(
            access.check(Scope::Look, Some(APP)),
            Err(AccessError::ScopeMissing(Scope::Look))
        );
        assert_eq!(access.check(Scope::Check, Some(b"")), Err(AccessError::UnknownToken));
    }
    assert_eq!(may(&access(Exposure::Verified, None), None), [true; 3]);
}

#[test]
fn what_needs_no_token_can_be_configured() {
    let closed = access(Exposure::Loopback, Some(Scopes::default()));
    assert_eq!(may(&closed, None), [false; 3]);
    assert_eq!(may(&closed, Some(APP)), [true, false, false]);
    let open = access(Exposure::Network, Some(Scopes::ALL));
    assert_eq!(may(&open, None), [true; 3]);
    assert_eq!(may(&access(Exposure::Verified, Some(Scopes::default())), None), [true; 3]);
}

#[test]
fn headers_carry_tokens() {
    let access = access(Exposure::Network, None);
    let with = |name: &'static str, value: &str| {
        let mut headers = HeaderMap::new();
        headers.insert(name, HeaderValue::from_str(value).unwrap());
        headers
    };
    let ops = core::str::from_utf8(OPS).unwrap();
    for value in [format!("Bearer {ops}"), format!("bearer  {ops}")] {
        let headers = with("authorization", &value);
        assert_eq!(access.check_headers(Scope::Change, &headers), Ok(()));
        let refused = Err(AccessError::TokenNeeded(Scope::Change));
        assert_eq!(access.check_own_header(Scope::Change, &headers), refused);
    }
    let headers = with("x-slidegate-token", ops);
    assert_eq!(access.check_headers(Scope::Change, &headers), Ok(()));
    assert_eq!(access.check_own_header(Scope::Change, &headers), Ok(()));
    for value in [ops, &format!("Basic {ops}"), ""] {
        let refused = Err(AccessError::TokenNeeded(Scope::Change));
        assert_eq!(access.check_headers(Scope::Change, &with("authorization", value)), refused);
    }
}

#[test]
fn tokens_that_protect_nothing_are_refused_and_none_is_shown() {
    assert!(Token::new(b"").is_err() && Token::new(b"short").is_err());
    assert!(Token::new(b"0123456789 abcdef").is_err());
    let token = Token::new(b" 0123456789abcdef\r\n").unwrap();
    assert!(token.is(b"0123456789abcdef") && !token.is(b"0123456789abcde"));
    assert!(!format!("{token:?}").contains("0123"));
}

#[test]
fn reach_is_that_of_the_listener() {
    for (address, exposure) in [
        ("127.0.0.1:1", Exposure::Loopback),
        ("[::ffff:127.0.0.1]:1", Exposure::Loopback),
        ("[::1]:1", Exposure::Loopback),
        ("0.0.0.0:1", Exposure::Network),
        ("[::]:1", Exposure::Network),
        ("192.0.2.1:1", Exposure::Network),
    ] {
        assert_eq!(Exposure::new(address.parse().unwrap(), false), exposure, "{address}");
        assert_eq!(Exposure::new(address.parse().unwrap(), true), Exposure::Verified, "{address}");
    }
}

fn foreign(names: &HostNames, fields: &[(&'static str, &'static str)]) -> Option<ForeignRequest> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.insert(*name, HeaderValue::from_static(value));
    }
    names.check(&Uri::from_static("/v1/check"), &headers).err()
}

#[test]
fn requests_of_foreign_pages_are_refused() {
    let names = HostNames::new(&[], true);
    let host = ("host", "127.0.0.1:8080");
    assert_eq!(foreign(&names, &[host]), None);
    assert_eq!(foreign(&names, &[]), None);
    for (origin, expected) in [
        ("http://127.0.0.1:8080", None),
        ("http://127.0.0.1:8081", Some(ForeignRequest::Page)),
        ("http://evil.test", Some(ForeignRequest::Page)),
        ("null", Some(ForeignRequest::Page)),
    ] {
        assert_eq!(foreign(&names, &[host, ("origin", origin)]), expected, "{origin}");
    }
    for (site, is_foreign) in
        [("same-origin", false), ("none", false), ("same-site", true), ("cross-site", true)]
    {
        let found = foreign(&names, &[host, ("sec-fetch-site", site)]);
        assert_eq!(found.is_some(), is_foreign, "{site}");
    }
}

#[test]
fn names_that_lead_to_loopback_must_be_configured() {
    let allowed = ["Limits.internal".to_owned()];
    for (host, plain, named) in [
        ("localhost", true, true),
        ("LOCALHOST:8080", true, true),
        ("127.0.0.1", true, true),
        ("[::1]:8080", true, true),
        ("[::1]", true, true),
        ("limits.internal:8080", false, true),
        ("evil.test:8080", false, false),
        ("localhost.evil.test", false, false),
        ("", false, false),
    ] {
        let check = |names: HostNames| foreign(&names, &[("host", host)]).is_none();
        assert_eq!(check(HostNames::new(&[], true)), plain, "{host}");
        assert_eq!(check(HostNames::new(&allowed, true)), named, "{host}");
        assert_eq!(check(HostNames::new(&allowed, false)), named, "{host}");
        assert!(check(HostNames::new(&[], false)), "{host}");
    }
    let names = HostNames::new(&allowed, true);
    let behind_a_proxy = [("host", "127.0.0.1:1"), ("origin", "https://limits.internal")];
    assert_eq!(foreign(&names, &behind_a_proxy), None);
    let uri = Uri::from_static("http://evil.test/v1/check");
    assert_eq!(names.check(&uri, &HeaderMap::new()), Err(ForeignRequest::Host));
}
