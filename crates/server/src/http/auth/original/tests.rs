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
    OriginalRequest { method: method.into(), host: host.into(), path: RequestPath::new(path) }
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
    assert_eq!(read(&NGINX, None), Some(original("POST", "shop.test", "/a?b=c")));
    assert_eq!(read(&CADDY, None), Some(original("PUT", "shop.test", "/d")));
    // The field of a proxy in front of nginx belongs to another family.
    let before = [&NGINX[..], &CADDY[3..]].concat();
    assert_eq!(read(&before, None), Some(original("POST", "shop.test", "/a?b=c")));
}

// Otherwise a client could choose the request that is checked.
#[test]
fn fields_that_a_client_may_have_added_are_rejected() {
    let both = [&NGINX[..], &CADDY[1..]].concat();
    assert_eq!(read(&both, None), None);
    assert_eq!(read(&[&NGINX[..], &CADDY[1..2]].concat(), None), None);
    assert_eq!(
        read(&both, Some(FieldFamily::Original)),
        Some(original("POST", "shop.test", "/a?b=c"))
    );
    assert_eq!(read(&both, Some(FieldFamily::Forwarded)), Some(original("PUT", "shop.test", "/d")));
    let twice = [&NGINX[..], &[("x-original-uri", "/free")]].concat();
    assert_eq!(read(&twice, None), None);
    assert_eq!(read(&NGINX[..2], None), None);
    assert_eq!(read(&NGINX[..1], None), None);
    for (name, value) in [
        ("x-forwarded-host", "free.test, shop.test"),
        ("x-forwarded-host", "free.test,shop.test"),
        ("x-forwarded-method", "GET, PUT"),
    ] {
        let joined = CADDY.map(|(field, own)| (field, if field == name { value } else { own }));
        assert_eq!(read(&joined, None), None, "{value}");
    }
    assert_eq!(read(&[&NGINX[..], &[("host", "free.test")]].concat(), None), None);
    let bare = [NGINX[1], NGINX[2], ("x-original-host", "free.test")];
    assert_eq!(read(&bare, None), Some(original("POST", "", "/a?b=c")));
}

#[test]
fn a_host_is_compared_without_port_and_case() {
    for (text, host) in [
        ("A.b", "a.b"),
        ("a.b:80", "a.b"),
        ("a.b.", "a.b"),
        ("a.b..:80", "a.b"),
        ("[2001:DB8::1]:80", "2001:db8::1"),
        ("[2001:0db8:0:0:0:0:0:01]", "2001:db8::1"),
    ] {
        assert_eq!(host_of(text), host);
    }
}

// Otherwise a rule or a key by method has several spellings.
#[test]
fn a_method_is_in_capitals() {
    let fields = [NGINX[0], ("x-original-method", "post"), NGINX[2]];
    assert_eq!(read(&fields, None), Some(original("POST", "shop.test", "/a?b=c")));
}
