//! Removes secrets from messages.

use std::collections::BTreeSet;

use crate::config::secrets::credentials;

/// Returns a text with the passwords of addresses, `redis://user:secret@host`, replaced by stars.
pub(crate) fn message(text: &str) -> String {
    let address = text.find("://").map_or(text.len(), |at| at);
    let start = text[..address].rfind(char::is_whitespace).map_or(0, |at| at + 1);
    match credentials(&text[start..]).filter(|_| address < text.len()) {
        Some(part) => {
            let (open, rest) = text.split_at(start + part.start);
            let (secret, after) = rest.split_at(part.len());
            [open, &stars(secret), after].concat()
        }
        None => text.to_owned(),
    }
}

/// Returns a message that may quote a file, without secrets and control characters and with a
/// bounded length.
pub(in crate::config) fn shown(text: &str, secrets: &BTreeSet<String>) -> String {
    // Enough for the names of all settings.
    const SHOWN_MAX: usize = 2000;
    let text = message(&without(text, secrets));
    let mut shown: String = text.chars().take(SHOWN_MAX).map(visible).collect();
    if text.chars().nth(SHOWN_MAX).is_some() {
        shown.push('…');
    }
    shown
}

/// Returns a text in which secrets are stars.
pub(super) fn without(text: &str, secrets: &BTreeSet<String>) -> String {
    secrets.iter().fold(text.to_owned(), |text, secret| {
        if text.contains(secret) { text.replace(secret, &stars(secret)) } else { text }
    })
}

fn stars(secret: &str) -> String {
    secret.chars().map(star).collect()
}

/// Replaces control characters, so that a quoted file cannot control a terminal.
pub(super) fn visible(character: char) -> char {
    match character {
        '\t' => ' ',
        other if other.is_control() => '\u{fffd}',
        other => other,
    }
}

/// The star of a character. Columns stay as they are.
pub(super) fn star(character: char) -> char {
    if character.is_whitespace() { character } else { '*' }
}

#[cfg(test)]
mod tests;
