//! Names, and texts of a certain form.

use slidegate::{Policy, Quota};

/// The longest text that ends up in requests' matches.
const MATCH_MAX: usize = 1024;

/// A name of ours: of a policy, a rule, a store, a tier.
pub(in crate::config) fn name(text: &str) -> Result<(), String> {
    // The rule is the library's; the quota is any.
    let quota = Quota::per_second(1).map_err(|error| error.to_string())?;
    let usable = Policy::new(text, quota).map(|_| ());
    usable.map_err(|_| "use 1 to 64 of a-z A-Z 0-9 _ - . : / *, a letter first".to_owned())
}

/// The name of a domain of descriptors.
pub(in crate::config) fn domain(text: &str) -> Result<(), String> {
    if (1..=256).contains(&text.len()) && !text.contains(char::is_control) {
        return Ok(());
    }
    Err("use 1 to 256 bytes without control characters".to_owned())
}

/// The name of a header field.
pub(in crate::config) fn header(text: &str) -> Result<(), String> {
    if (1..=128).contains(&text.len()) && is_token(text) {
        return Ok(());
    }
    Err("use the name of a header, such as x-api-key".to_owned())
}

/// A method of HTTP.
pub(in crate::config) fn method(text: &str) -> Result<(), String> {
    let small = text.bytes().any(|byte| byte.is_ascii_lowercase());
    if (1..=32).contains(&text.len()) && is_token(text) && !small {
        return Ok(());
    }
    Err("use a method in capital letters, such as POST".to_owned())
}

/// A host without a port.
pub(in crate::config) fn host(text: &str) -> Result<(), String> {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    let address = text.starts_with('[') && text.ends_with(']');
    if (1..=253).contains(&text.len()) && (address || text.bytes().all(usable)) {
        return Ok(());
    }
    Err("use a host without a port, such as api.example.com".to_owned())
}

/// A path, perhaps with `*` at its end.
pub(in crate::config) fn path_pattern(text: &str) -> Result<(), String> {
    let stars = text.matches('*').count();
    let usable = text.starts_with('/')
        && text.len() <= MATCH_MAX
        && !text.contains(|letter: char| letter.is_control() || letter == '?' || letter == '#')
        && (stars == 0 || (stars == 1 && text.ends_with('*')));
    if usable {
        return Ok(());
    }
    Err("use a path that starts with `/`, such as /login or /api/*; `*` only at its end".to_owned())
}

/// What precedes all keys in Redis.
pub(in crate::config) fn prefix(text: &str) -> Result<(), String> {
    let usable = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    if (1..=32).contains(&text.len()) && text.bytes().all(usable) {
        return Ok(());
    }
    Err("use 1 to 32 of a-z A-Z 0-9 _ - .".to_owned())
}

fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte))
}
