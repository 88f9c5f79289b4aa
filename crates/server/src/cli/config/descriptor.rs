//! Which limit of a tree a descriptor meets, and why.

use crate::spec::{DescriptorSpec, DomainSpec};

/// How an entry met a descriptor of the configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// By key and value.
    Value,
    /// By a value with `*`, the first in the file that fits.
    Wildcard,
    /// By the key, whatever the value.
    Key,
}

/// One level on the way.
#[derive(Debug)]
pub(super) struct LevelMatch<'a> {
    pub(super) entry: &'a (String, String),
    /// What it met; the way ends without.
    pub(super) met: Option<(&'a DescriptorSpec, How)>,
}

/// The way of a descriptor through a tree. Once a level is chosen, its neighbours are not tried.
pub(super) fn walk<'a>(
    domain: &'a DomainSpec,
    entries: &'a [(String, String)],
) -> Vec<LevelMatch<'a>> {
    let mut steps = Vec::with_capacity(entries.len());
    let mut level = domain.descriptors.as_slice();
    for entry in entries {
        let met = find(level, entry);
        steps.push(LevelMatch { entry, met });
        match met {
            Some((descriptor, _)) => level = &descriptor.descriptors,
            None => break,
        }
    }
    steps
}

fn find<'a>(
    level: &'a [DescriptorSpec],
    (key, value): &(String, String),
) -> Option<(&'a DescriptorSpec, How)> {
    let name = format!("{key}_{value}");
    let by_name = |name: &str| level.iter().find(|it| it.composite() == name);
    if let Some(found) = by_name(&name) {
        return Some((found, How::Value));
    }
    let fits = |it: &&DescriptorSpec| {
        let pattern = it.composite();
        pattern.contains('*') && matches(&pattern, &name)
    };
    if let Some(found) = level.iter().find(fits) {
        return Some((found, How::Wildcard));
    }
    by_name(key).map(|found| (found, How::Key))
}

/// Whether a text fits a pattern, in which `*` is any run of characters.
fn matches(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut parts: Vec<&str> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_stand_for_any_run() {
        for (pattern, text, fits) in [
            ("a_*", "a_", true),
            ("a_*", "a_b", true),
            ("a_*b", "a_b", true),
            ("a_*b", "a_bc", false),
            ("a_x*y*z", "a_xyz", true),
            ("a_x*y*z", "a_x-y-y-z", true),
            ("a_x*y*z", "a_xz", false),
            ("a_ab*ba", "a_aba", false),
            ("a_*", "b_a", false),
            ("a", "a", true),
            ("a", "ab", false),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
    }
}
