//! A path as servers understand it, however it was written.

use percent_encoding::percent_decode_str;

/// The path of a URI, decoded once and without detours, as nginx and others make it before they choose
/// what answers: otherwise `//login`, `/./login` and `/%6cogin` would pass by a rule for `/login`.
///
/// An encoded slash counts as one. Where a service takes it for something else, a rule may match more
/// than was meant, and never less.
pub(super) fn plain(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path = match path.split_once("://") {
        // With scheme and host, as proxies are asked.
        Some((_, rest)) if !path.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => path,
    };
    // Anything that is not `%XX` stays as it is.
    let decoded = percent_decode_str(path).decode_utf8_lossy();
    let mut parts: Vec<&str> = Vec::new();
    for part in decoded.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    let mut plain = String::with_capacity(decoded.len() + 1);
    for part in &parts {
        plain.push('/');
        plain.push_str(part);
    }
    let is_folder = matches!(decoded.rsplit('/').next(), Some("" | "." | ".."));
    if parts.is_empty() || is_folder {
        plain.push('/');
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_spelling_goes_past_a_rule() {
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
    fn what_is_different_stays_so() {
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
}
