//! Normalized paths.

use percent_encoding::percent_decode_str;

/// Returns the path of a URI, decoded once and normalized, as nginx and other servers do before
/// they select a handler. Otherwise `//login`, `/./login` and `/%6cogin` would bypass a rule for
/// `/login`.
///
/// An encoded slash counts as a slash. If a service treats it differently, a rule may match more
/// than intended, and never less.
pub(super) fn plain(uri: &str) -> String {
    let path = uri.split(['?', '#']).next().unwrap_or_default();
    let path = match path.split_once("://") {
        // With scheme and host, as in requests to proxies.
        Some((_, rest)) if !path.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => path,
    };
    // Anything that is not `%XX` is unchanged.
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
mod tests;
