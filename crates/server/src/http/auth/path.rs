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
mod tests;
