//! Tests of `original`.

use super::*;
use http::HeaderValue;

fn read(fields: &[(&'static str, &str)], family: Option<FieldFamily>) -> Option<OriginalRequest> {
    let mut headers = HeaderMap::new();
    for (name, value) in fields {
        headers.append(*name, HeaderValue::from_str(value).unwrap());
    }
    OriginalRequest::read(&headers, family).ok()
}

fn original(method: &str, host: &str, path: &str) -> OriginalRequest {
    OriginalRequest { method: method.into(), host: host.into(), path: path.into() }
}

const NGINX: [(&str, &str); 3] =
    [("host", "Shop.Test:8443"), ("x-original-method", "POST"), ("x-original-uri", "/a?b=c")];
const CADDY: [(&str, &str); 4] = [
    ("host", "upstream"),
    ("x-forwarded-method", "PUT"),
    ("x-forwarded-uri", "/d"),
    ("x-forwarded-host", "shop.test"),
];

#[test]
fn each_family_is_read() {
    assert_eq!(read(&NGINX, None), Some(original("POST", "shop.test", "/a")));
    assert_eq!(read(&CADDY, None), Some(original("PUT", "shop.test", "/d")));
    // The field of a proxy in front of nginx belongs to another family.
    let before = [&NGINX[..], &CADDY[3..]].concat();
    assert_eq!(read(&before, None), Some(original("POST", "shop.test", "/a")));
}

// Otherwise a client could choose the request that is checked.
#[test]
fn fields_that_a_client_may_have_added_are_rejected() {
    let both = [&NGINX[..], &CADDY[1..]].concat();
    assert_eq!(read(&both, None), None);
    assert_eq!(read(&[&NGINX[..], &CADDY[1..2]].concat(), None), None);
    assert_eq!(read(&both, Some(FieldFamily::Original)), Some(original("POST", "shop.test", "/a")));
    assert_eq!(read(&both, Some(FieldFamily::Forwarded)), Some(original("PUT", "shop.test", "/d")));
    let twice = [&NGINX[..], &[("x-original-uri", "/free")]].concat();
    assert_eq!(read(&twice, None), None);
    assert_eq!(read(&NGINX[..2], None), None);
    assert_eq!(read(&NGINX[..1], None), None);
    let bare = [NGINX[1], NGINX[2], ("x-original-host", "free.test")];
    assert_eq!(read(&bare, None), Some(original("POST", "", "/a")));
}

#[test]
fn a_host_is_compared_without_port_and_case() {
    for (text, host) in
        [("A.b", "a.b"), ("a.b:80", "a.b"), ("a.b.", "a.b"), ("[2001:DB8::1]:80", "2001:db8::1")]
    {
        assert_eq!(host_of(text), host);
    }
}
