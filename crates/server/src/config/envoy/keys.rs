//! The allowed keys of each place.

use std::collections::HashMap;

use super::scalar;
use crate::config::report::Report;
use crate::config::source::Span;
use crate::config::table::Section;
use crate::config::yaml::{Node, Shape, Value};
use crate::spec::{DESCRIPTOR, DOMAIN, RATE_LIMIT};

/// Extension keys that the reference service does not have.
const EXTENSIONS: [&str; 4] = ["algorithm", "store", "failure_mode", "usage"];

/// Returns `true` if `node` is a map. Reports the keys that do not belong here.
///
/// The reference service ignores a key in the wrong place, and so does this one, with a warning.
/// Any other key is an error.
pub(super) fn check_map(
    what: &str,
    node: &Node,
    section: &Section,
    extensions: bool,
    report: &mut Report,
) -> bool {
    if !matches!(node.kind, Shape::Map(_)) {
        let message = format!("{what} must be a map, but is {}", node.what());
        report.error(node.span, "type", message).help("write `key: value` lines");
        return false;
    }
    let mut seen: HashMap<&str, Span> = HashMap::new();
    for entry in node.entries() {
        let name = entry.key.text.as_str();
        if !matches!(scalar::value(&entry.key), Value::Text) {
            let kind = scalar::value(&entry.key).what();
            let message = format!("the key `{name}` must be a text, but is {kind}");
            report
                .error(entry.key_span, "non-string-key", message)
                .choices(name, allowed(section, extensions));
            continue;
        }
        if let Some(first) = seen.insert(name, entry.key_span) {
            let message = format!("duplicate key `{name}`: the last one counts");
            let finding = report.warning(entry.key_span, "duplicate-key", message);
            finding.related(first, "first defined here").help("keep one of them");
        }
        if allowed(section, extensions).any(|known| known == name) {
            continue;
        }
        if let Some(home) = home(name) {
            let message = format!("`{name}` has no effect in {}", section.what);
            let finding = report.warning(entry.key_span, "misplaced-key", message);
            finding.help(format!("it belongs in {home}"));
            continue;
        }
        let message = format!("`{name}` is not a key of {}", section.what);
        let finding = report.error(entry.key_span, "unknown-key", message);
        if EXTENSIONS.contains(&name) && !extensions {
            finding.help(
                "it is an extension: make `# slidegate: extensions` the first line of the file, or use the native format",
            );
        } else {
            finding.choices(name, allowed(section, extensions));
        }
    }
    true
}

fn allowed(section: &Section, extensions: bool) -> impl Iterator<Item = &'static str> {
    section.names().filter(move |name| extensions || !EXTENSIONS.contains(name))
}

/// Returns the place of a key of the reference service.
fn home(name: &str) -> Option<&'static str> {
    if EXTENSIONS.contains(&name) {
        return None;
    }
    let homes =
        [(&DOMAIN, "the file"), (&DESCRIPTOR, "a descriptor"), (&RATE_LIMIT, "`rate_limit`")];
    homes.into_iter().find(|(section, _)| section.field(name).is_some()).map(|(_, home)| home)
}

#[cfg(test)]
mod tests;
