//! Stores.

use crate::config::lint;
use crate::config::report::Report;
use crate::config::table::{ROOT, Read, Reader, given};
use crate::config::yaml::{MapEntry, Node};
use crate::spec::{MEMORY, MemorySpec, RedisPlace, RedisSpec, StoreSpec};

/// Memory as a store.
pub(in crate::config) fn memory(root: &Node, reader: &mut Reader<'_>) -> MemorySpec {
    let spec: MemorySpec = given(&ROOT, "memory", root, reader).unwrap_or_default();
    if let Some(node) = root.find("memory.sweep_interval") {
        lint::sweep_interval(spec.sweep_every, node.span, reader.report);
    }
    spec
}

/// The names of all stores, also of those with mistakes.
pub(in crate::config) fn store_names(root: &Node) -> Vec<&str> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    core::iter::once(MEMORY).chain(entries.iter().map(|entry| entry.key.text.as_str())).collect()
}

/// All stores under `stores`.
pub(in crate::config) fn stores(root: &Node, reader: &mut Reader<'_>) -> Vec<StoreSpec> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| store(entry, reader)).collect()
}

fn store(entry: &MapEntry, reader: &mut Reader<'_>) -> Option<StoreSpec> {
    let (name, node) = (&entry.key.text, &entry.value);
    if name == MEMORY {
        let message = format!("`{MEMORY}` is the store of this process, and always there");
        reader.report.error(entry.key_span, "value", message).help("use another name");
        return None;
    }
    if !has_place(entry, reader.report) {
        return None;
    }
    let spec = RedisSpec::read(node, reader)?;
    if let (RedisPlace::Cluster(_), Some(node), Some(database @ 1..)) =
        (&spec.place, node.get("database"), spec.database)
    {
        let message = format!("a cluster has no database {database}");
        reader.report.error(node.span, "value", message).help("use 0, or leave it out");
    }
    Some(StoreSpec::Redis(name.clone(), Box::new(spec)))
}

/// Whether exactly one key says where the servers are.
fn has_place(entry: &MapEntry, report: &mut Report) -> bool {
    let node = &entry.value;
    let kinds = ["redis", "sentinel", "cluster"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| node.get(kind).is_some()).collect();
    let name = &entry.key.text;
    let message = match given.as_slice() {
        ["cluster"] if node.get("cluster").is_some_and(Node::is_empty_list) => {
            let message = format!("the store `{name}` names no node of its cluster");
            report.error(entry.key_span, "missing-key", message).help("name at least one");
            return false;
        }
        [_] => return true,
        [] => format!("the store `{name}` does not say where its servers are"),
        several => {
            format!("the store `{name}` has {}, and must have one of them", several.join(" and "))
        }
    };
    report.error(entry.key_span, "one-of", message).choices("", kinds);
    false
}
