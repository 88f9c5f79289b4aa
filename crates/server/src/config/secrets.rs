//! Secrets in the sources of a configuration, which no message may show.
//!
//! They are found in the parsed tree, by their keys. In the part of a file that is not YAML, everything
//! after a word for a secret is hidden.

use core::ops::Range;

use super::yaml::{Node, Shape};
use crate::nearest;

/// Words in the names of keys and variables whose values are secrets.
const WORDS: [&str; 8] =
    ["password", "passwd", "pass", "secret", "token", "auth", "authorization", "credentials"];

/// Returns `true` for the name of a secret, also if it is misspelled: `password`, `REDIS_AUTH`,
/// `tokens`, `pasword`. The path of a file is not secret.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let is_public = ["_file", "_files", "_keys", "_percent"].iter().any(|end| name.ends_with(end));
    let mut words = name.split(|letter: char| !letter.is_alphanumeric());
    let is_word = |word: &str| {
        let one = word.strip_suffix('s').unwrap_or(word);
        let near = || nearest(one, ["password", "secret", "token"]).is_some();
        WORDS.contains(&word) || WORDS.contains(&one) || one.len() >= 5 && near()
    };
    !is_public && (words.any(is_word) || name.contains("password") || name.contains("secret"))
}

/// Calls `found` with every secret of a tree: the node, and the part of its text that is secret.
pub(super) fn find<'n>(node: &'n Node, name: &'n str, found: &mut impl FnMut(&Node, Range<usize>)) {
    match &node.kind {
        Shape::Map(entries) => {
            // A map in the place of a secret.
            let name_of = |key: &'n str| if is_secret(name) { name } else { key };
            for entry in entries {
                find(&entry.value, name_of(&entry.key.text), found);
            }
        }
        Shape::List(items) => items.iter().for_each(|item| {
            // The tokens of `access` are maps, which name files and scopes.
            let is_map = matches!(item.kind, Shape::Map(_));
            find(item, if is_map { "" } else { name }, found);
        }),
        Shape::Scalar(scalar) => found_in(&scalar.text, name).into_iter().for_each(|part| {
            found(node, part);
        }),
    }
}

/// Calls `found` with every scalar of a tree.
pub(super) fn scalars(node: &Node, found: &mut impl FnMut(&Node, &str)) {
    match &node.kind {
        Shape::Map(entries) => entries.iter().for_each(|entry| scalars(&entry.value, found)),
        Shape::List(items) => items.iter().for_each(|item| scalars(item, found)),
        Shape::Scalar(scalar) => found(node, &scalar.text),
    }
}

/// Returns the secret part of a value.
pub(super) fn found_in(text: &str, name: &str) -> Option<Range<usize>> {
    let is_flag = matches!(text, "true" | "false" | "*" | "");
    if is_secret(name) {
        return (!is_flag).then_some(0..text.len());
    }
    let may_be_address = ["redis", "cluster", "addresses", "sentinel"].contains(&name)
        || name.to_ascii_lowercase().contains("url")
        || text.contains("://");
    if may_be_address { credentials(text) } else { None }
}

/// Returns the password of an address, `redis://user:secret@host`, or all before the last `@` if there
/// is no user. A password may contain any character, so it ends at the last `@`.
pub(super) fn credentials(text: &str) -> Option<Range<usize>> {
    let start = text.find("://").map_or(0, |at| at + 3);
    let end = start + text[start..].rfind('@')?;
    let user = text[start..end].find(':').map_or(0, |at| at + 1);
    Some(start + user..end)
}

/// Returns the start of what may be secret in a text that is not YAML: the first word for a secret, or
/// the first address with a password.
pub(super) fn first_in(text: &str) -> Option<usize> {
    let lower = text.to_ascii_lowercase();
    let words = WORDS.iter().filter_map(|word| lower.find(word));
    let address = text.contains('@').then(|| text.find("://")).flatten();
    words.chain(address.map(|at| at + 3)).min()
}

#[cfg(test)]
mod tests;
