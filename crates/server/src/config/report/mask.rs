//! Removes secrets from messages.

/// Keys whose values are secrets.
const SECRET_KEYS: [&str; 4] = ["password", "REDIS_AUTH", "REDIS_PERSECOND_AUTH", "SENTINEL_AUTH"];

/// Returns a line of a source with its secrets replaced by stars, character for character.
pub(in crate::config) fn line(line: &str) -> String {
    for key in SECRET_KEYS {
        let Some(at) = line.find(key) else { continue };
        let rest = &line[at + key.len()..];
        let Some(sign) = rest.find([':', '=']) else { continue };
        // `password_file` is a path and is shown.
        if rest[..sign].trim_matches(['"', '\'', ' ']).is_empty() {
            let (open, secret) = line.split_at(at + key.len() + sign + 1);
            return open.chars().chain(secret.chars().map(star)).collect();
        }
    }
    message(line)
}

/// Returns a text with the passwords of addresses, `redis://user:secret@host`, replaced by stars.
pub(crate) fn message(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, behind) = rest.split_at(at + 3);
        shown.push_str(before);
        let end = behind.find(is_end).unwrap_or(behind.len());
        let (authority, after) = behind.split_at(end);
        // A password may contain `@`: the last one ends it.
        match authority.rsplit_once('@') {
            Some((credentials, host)) => {
                let (user, secret) = credentials.split_once(':').unwrap_or((credentials, ""));
                shown.push_str(user);
                shown.extend(credentials[user.len()..].chars().take(1));
                shown.extend(secret.chars().map(star));
                shown.push('@');
                shown.push_str(host);
            }
            None => shown.push_str(authority),
        }
        rest = after;
    }
    shown.push_str(rest);
    shown
}

/// Returns a message that may quote a file, without secrets and control characters and with a
/// bounded length.
pub(in crate::config) fn shown(text: &str) -> String {
    // Enough for the names of all settings.
    const SHOWN_MAX: usize = 2000;
    let mut shown: String = message(text).chars().take(SHOWN_MAX).map(visible).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Replaces control characters, so that a quoted file cannot control a terminal.
pub(super) fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

fn is_end(character: char) -> bool {
    character.is_whitespace() || matches!(character, '"' | '\'' | '`' | ',' | ']' | '}')
}

fn star(character: char) -> char {
    if character.is_whitespace() { character } else { '*' }
}

#[cfg(test)]
mod tests;
