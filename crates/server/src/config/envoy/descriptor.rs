//! One level of a tree.

use std::collections::HashMap;

use super::keys::check_map;
use super::limit::limit;
use super::metadata::metadata;
use super::scalar::{flag, text, wrong_type};
use crate::config::check::check;
use crate::config::report::Report;
use crate::config::source::Span;
use crate::config::table::{Keyword, Section};
use crate::config::yaml::{Node, Shape};
use crate::domain::ENTRIES_MAX;
use crate::spec::{DESCRIPTOR, DescriptorSpec};

/// The keys and values of one level, as that service joins them, and their places.
#[derive(Debug, Default)]
pub(super) struct Level {
    known: HashMap<String, Span>,
    depth: usize,
}

impl Level {
    fn below(&self) -> Self {
        Self { known: HashMap::new(), depth: self.depth + 1 }
    }
}

/// Reads the descriptors under `descriptors`. `level` has the existing ones.
pub(super) fn descriptors(
    node: &Node,
    level: &mut Level,
    extensions: bool,
    report: &mut Report,
) -> Vec<DescriptorSpec> {
    let Some(found) = node.get("descriptors") else { return Vec::new() };
    let Shape::List(items) = &found.kind else {
        wrong_type(found, "descriptors", "a list", report);
        return Vec::new();
    };
    if level.depth >= ENTRIES_MAX {
        let message = format!("more than {ENTRIES_MAX} levels of descriptors");
        let help = "join keys that always occur together into one, in Envoy and here";
        report.error(found.span, "range", message).help(help);
        return Vec::new();
    }
    items.iter().filter_map(|item| descriptor(item, level, extensions, report)).collect()
}

fn descriptor(
    node: &Node,
    level: &mut Level,
    extensions: bool,
    report: &mut Report,
) -> Option<DescriptorSpec> {
    let Shape::Map(_) = node.kind else {
        let message = format!("an item of `descriptors` must be a map, but is {}", node.what());
        report.error(node.span, "non-map-list", message).help("write `- key: ...`");
        return None;
    };
    check_map("a descriptor", node, &DESCRIPTOR, extensions, report);
    let value = text(node, "value", report);
    let spec = DescriptorSpec {
        key: text(node, "key", report).unwrap_or_default(),
        limit: limit(node, extensions, report),
        shadow_mode: flag(node, "shadow_mode", report),
        quota_mode: flag(node, "quota_mode", report),
        detailed_metric: flag(node, "detailed_metric", report),
        value_to_metric: flag(node, "value_to_metric", report),
        share_threshold: flag(node, "share_threshold", report),
        failure_mode: choice("failure_mode", node, &DESCRIPTOR, extensions, report),
        usage: choice("usage", node, &DESCRIPTOR, extensions, report),
        metadata: metadata(node, report),
        descriptors: descriptors(node, &mut level.below(), extensions, report),
        value,
    };
    check_key(&spec, node, level, report);
    check_share(&spec, node, report);
    Some(spec)
}

/// Returns a choice of a domain or a descriptor that only extended files can make.
pub(super) fn choice<T: Keyword>(
    key: &'static str,
    node: &Node,
    section: &Section,
    extensions: bool,
    report: &mut Report,
) -> Option<T> {
    let found = node.get(key).filter(|_| extensions)?;
    check(key, found, section.kind(key), report);
    Keyword::from_keyword(&found.as_scalar()?.text)
}

fn check_key(spec: &DescriptorSpec, node: &Node, level: &mut Level, report: &mut Report) {
    if spec.key.is_empty() {
        if node.get("key").is_none_or(|key| key.as_scalar().is_some_and(|key| key.text.is_empty()))
        {
            let message = "descriptor without `key`";
            report.error(node.span, "empty-key", message).help("add for example `key: user`");
        }
        return;
    }
    let composite = spec.composite();
    let span = node.get("key").map_or(node.span, |key| key.span);
    if let Some(first) = level.known.insert(composite.clone(), span) {
        let message = format!("two descriptors of this level are `{composite}`");
        let finding = report.error(span, "duplicate-descriptor", message);
        let help = "key and value are joined by `_`: key `a_b` value `c` is key `a` value `b_c`";
        finding.related(first, "the first is here").help(help);
    }
}

fn check_share(spec: &DescriptorSpec, node: &Node, report: &mut Report) {
    let Some(found) = node.get("share_threshold").filter(|_| spec.share_threshold) else { return };
    if !spec.composite().contains('*') {
        let message = format!(
            "`share_threshold` needs a value with `*`, but `{}` has none",
            spec.composite()
        );
        let finding = report.error(found.span, "share-threshold", message);
        finding.help("values are shared only where a `*` matches several");
    }
}
