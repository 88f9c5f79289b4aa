//! Tests of `path`.

use super::*;
use proptest::prelude::*;

fn matches(pattern: &str, uri: &str) -> bool {
    PathPattern::new(pattern).matches(&RequestPath::new(uri))
}

#[test]
fn no_notation_bypasses_a_rule() {
    for uri in [
        "/login",
        "/login?x=/other",
        "/login#top",
        "/login#/x",
        "//login",
        "/login/",
        "/login//",
        "/login;x=1",
        "/login;x=1/",
        "/;x/login;",
        "/login%3bx",
        "/login%20",
        "/%20login%09",
        "/login%0d%0a",
        "/login%00",
        "/login%00.html",
        "/login%00/x",
        "/login%3fx",
        "/./login",
        "/a/../login",
        "/../../login",
        "/login/x/..",
        "/login/..;/..",
        "/a/..;/login",
        "/a;/..;b=c/login",
        "/%6cogin",
        "/%6C%6fgin",
        "/a/%2e%2e/login",
        "/a%2f..%2Flogin",
        "/a#/../login",
        "%2Flogin",
        "\\login",
        "/a\\..\\login",
        "/%5Clogin",
        "http://host:80/login?x",
        "https://host//login/",
        "HTTP://host\\login",
    ] {
        assert!(matches("/login", uri), "{uri}");
        assert!(matches("/login/", uri), "{uri}");
        assert!(matches("/log*", uri), "{uri}");
        assert!(matches("/login/*", uri), "{uri}");
        assert!(matches("/*", uri), "{uri}");
    }
}

// What a service serves below a prefix, whatever it thinks of dot segments and encoded slashes.
#[test]
fn no_notation_leaves_a_prefix() {
    for uri in [
        "/api",
        "/api/",
        "/api/x",
        "/api;v=1/x",
        "/api%2fx",
        "/api/../x",
        "/api/..%2fx",
        "/api/..;junk",
        "/api/%2e%2e",
        "/api/x/../../y",
        "/x/../api/y",
        "/api\\..\\x",
    ] {
        assert!(matches("/api/*", uri), "{uri}");
    }
    for uri in ["/", "/apis", "/x/api/y", "/ap"] {
        assert!(!matches("/api/*", uri), "{uri}");
    }
}

#[test]
fn different_paths_stay_different() {
    for uri in
        ["", "/", "/logins", "/login/x", "/Login", "/x/login", "/login.", "/lo/gin", "/%256cogin"]
    {
        assert!(!matches("/login", uri), "{uri}");
    }
    for uri in ["", "/", "//", "/./", "*", "http://host", "/;x"] {
        assert_eq!(matches("/", uri), uri != "*", "{uri}");
    }
    assert!(matches("/a%", "/a%") && matches("/a%zz", "/a%zz"));
    assert!(matches("/x:/login", "/x://login"));
}

#[test]
fn case_is_ignored_on_request() {
    for (pattern, uri) in [("/login", "/LOGIN;x"), ("/Api/*", "/aPI/x"), ("/login", "/A/../Login")]
    {
        let path = RequestPath::new(uri);
        assert!(!PathPattern::new(pattern).matches(&path), "{uri}");
        assert!(PathPattern::new(pattern).ignore_case().matches(&path), "{uri}");
    }
}

#[test]
fn exact_patterns_compare_what_was_sent() {
    let login = PathPattern::new("/login").exact();
    let prefix = PathPattern::new("/api/*").exact();
    assert!(login.matches(&RequestPath::new("/login?x")));
    assert!(login.matches(&RequestPath::new("http://host/login")));
    assert!(login.ignore_case().matches(&RequestPath::new("/Login")));
    for uri in ["/login/", "/login;x", "//login", "/%6cogin", "/a/../login", "/login#x"] {
        assert!(!login.matches(&RequestPath::new(uri)), "{uri}");
    }
    assert!(prefix.matches(&RequestPath::new("/api/../x")));
    assert!(!prefix.matches(&RequestPath::new("/api")));
}

#[test]
fn patterns_that_never_match_are_found() {
    for text in ["/login;x", "/%6cogin", "/a//b", "/a/../b", "/a\\b", "/a ", "/a/./*"] {
        assert!(!PathPattern::new(text).is_matchable(), "{text}");
        assert!(PathPattern::new(text).exact().is_matchable(), "{text}");
    }
    for text in ["/", "/*", "/login", "/login/", "/api/*", "/a*", "/a b/ä"] {
        assert!(PathPattern::new(text).is_matchable(), "{text}");
    }
}

/// Resolves the segments of a path in one of the ways that servers do.
fn resolved(segments: &[String], keeps: u32) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    for segment in segments {
        let bare = segment.split(';').next().unwrap_or_default();
        let segment = if keeps & 1 == 0 { bare } else { segment.as_str() };
        match segment {
            "" | "." if keeps & 2 == 0 => {}
            ".." if keeps & 4 == 0 => drop(parts.pop()),
            segment => parts.push(segment.to_owned()),
        }
    }
    parts
}

proptest! {
    // Servers remove parameters, empty and dot segments, or do not, in any combination.
    #[test]
    fn a_path_that_any_server_serves_matches(
        segments in prop::collection::vec("(a|b|login|x;y|\\.\\.;?x?|\\.|)", 0..8),
        keeps in 0u32..8,
    ) {
        let path = RequestPath::new(&format!("/{}", segments.join("/")));
        let parts = resolved(&segments, keeps);
        if parts == ["login"] {
            prop_assert!(PathPattern::new("/login").matches(&path));
        }
        if parts.first().is_some_and(|first| first == "a") {
            prop_assert!(PathPattern::new("/a/*").matches(&path));
        }
    }

    #[test]
    fn no_path_panics(uri in "\\PC*", pattern in "/\\PC*") {
        let path = RequestPath::new(&uri);
        let _ = PathPattern::new(&pattern).ignore_case().matches(&path);
        let _ = PathPattern::new(&pattern).is_matchable();
    }
}
