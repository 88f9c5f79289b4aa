//! Tests of `scope`.

use super::*;

fn scope(uri: &'static str) -> Scope {
    Target::new(&Method::GET, &Uri::from_static(uri), &HeaderMap::new()).scope()
}

#[test]
fn notations_of_one_host_share_a_scope() {
    assert_eq!(scope("https://Api.Example.com/a"), scope("https://api.example.com:443/b?c"));
    assert_ne!(scope("https://api.example.com/"), scope("http://api.example.com/"));
    assert_ne!(scope("http://127.0.0.1:8001/"), scope("http://127.0.0.1:8002/"));
    assert_eq!(scope("http://[::1]:80/").host(), "[::1]:80");
}

#[test]
fn host_field_is_used_without_an_authority() {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, http::HeaderValue::from_static("api.example.com:8080"));
    let uri = Uri::from_static("/path");
    let target = Target::new(&Method::GET, &uri, &headers);
    assert_eq!(target.scope(), Scope::new("api.example.com:8080"));
    assert_eq!(scope("/path"), Scope::new(""));
}

#[test]
fn parts_are_distinguished_and_not_shown() {
    let one = Scope::new("a").and("secret").and("b");
    assert_ne!(one, Scope::new("a").and("b").and("secret"));
    assert_ne!(one, Scope::new("a").and("secretb"));
    assert!(!format!("{one:?}").contains("secret"));
}

#[test]
fn names_are_bounded_and_still_distinguished() {
    let long = "x".repeat(100_000);
    let scope = Scope::new(&long);
    assert_eq!(scope.host().len(), HOST_BYTES_MAX);
    assert_ne!(scope, Scope::new(&long[1..]));
    assert!(Scope::new(&"\u{fc}".repeat(300)).host().len() <= HOST_BYTES_MAX);
}
