//! The native format: checks beyond single values, and the conversion of a checked tree to settings
//! and limits.

mod policy;
mod rule;

use super::lint;
use super::table::{ROOT, Reader, given};
use super::yaml::Node;
use crate::spec::{MEMORY, MemorySpec, StoreSpec};

pub(super) use policy::{policies, unknown_store};
pub(super) use rule::rules;

/// Reads the settings of memory as a store.
pub(super) fn memory(root: &Node, reader: &mut Reader<'_>) -> MemorySpec {
    let spec: MemorySpec = given(&ROOT, "memory", root, reader).unwrap_or_default();
    if let Some(node) = root.find("memory.sweep_interval") {
        lint::sweep_interval(spec.sweep_every, node.span, reader.report);
    }
    spec
}

/// Returns the names of all stores, including invalid ones.
pub(super) fn store_names(root: &Node) -> Vec<&str> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    core::iter::once(MEMORY).chain(entries.iter().map(|entry| entry.key.text.as_str())).collect()
}

/// Reads all stores under `stores`.
pub(super) fn stores(root: &Node, reader: &mut Reader<'_>) -> Vec<StoreSpec> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| StoreSpec::read(entry, reader)).collect()
}
