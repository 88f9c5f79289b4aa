//! Tests of `path`.

use super::*;

#[test]
fn no_notation_bypasses_a_rule() {
    for uri in [
        "/login",
        "/login?x=/other",
        "/login#top",
        "//login",
        "/./login",
        "/a/../login",
        "/../../login",
        "/%6cogin",
        "/%6C%6fgin",
        "/a/%2e%2e/login",
        "/a%2f..%2Flogin",
        "%2Flogin",
        "http://host:80/login?x",
        "https://host//login",
    ] {
        assert_eq!(plain(uri), "/login", "{uri}");
    }
}

#[test]
fn different_paths_stay_different() {
    for (uri, path) in [
        ("", "/"),
        ("/", "/"),
        ("/login/", "/login/"),
        ("/login/.", "/login/"),
        ("/login/x/..", "/login/"),
        ("/LOGIN", "/LOGIN"),
        ("/a%", "/a%"),
        ("/a%4", "/a%4"),
        ("/a%zz", "/a%zz"),
        ("/%2525", "/%25"),
        ("http://host", "/"),
        ("/x://login", "/x:/login"),
        ("*", "/*"),
        ("/%ff", "/\u{fffd}"),
    ] {
        assert_eq!(plain(uri), path, "{uri}");
    }
}
