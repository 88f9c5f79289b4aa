//! Stores.

use slidegate::OnFull;

use super::read::{text, texts, time, whole};
use crate::config::files::Files;
use crate::config::lint;
use crate::config::report::Report;
use crate::config::yaml::{Entry, Node};
use crate::spec::{MEMORY, MemorySpec, RedisPlace, RedisSpec, StoreSpec};

/// The least that a secret for keys must have.
const KEY_SECRET_MIN: usize = 16;

/// Memory as a store.
pub(in crate::config) fn memory(root: &Node, report: &mut Report) -> MemorySpec {
    let default = MemorySpec::default();
    let sweep_every = time(root, "memory.sweep_interval").unwrap_or(default.sweep_every);
    if let Some(node) = root.find("memory.sweep_interval") {
        lint::sweep_interval(sweep_every, node.span, report);
    }
    MemorySpec {
        limit: whole::<usize>(root, "memory.limit_mb")
            .map_or(default.limit, |megabytes| megabytes << 20),
        on_full: match text(root, "memory.on_full") {
            Some("lru") => OnFull::Lru,
            Some("deny") => OnFull::Deny,
            _ => OnFull::Overflow,
        },
        sweep_every,
    }
}

/// The names of all stores, also of those with mistakes.
pub(in crate::config) fn store_names(root: &Node) -> Vec<&str> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    core::iter::once(MEMORY).chain(entries.iter().map(|entry| entry.key.text.as_str())).collect()
}

/// All stores under `stores`.
pub(in crate::config) fn stores(
    root: &Node,
    files: &mut Files,
    report: &mut Report,
) -> Vec<StoreSpec> {
    let entries = root.get("stores").map(Node::entries).unwrap_or_default();
    entries.iter().filter_map(|entry| store(entry, files, report)).collect()
}

fn store(entry: &Entry, files: &mut Files, report: &mut Report) -> Option<StoreSpec> {
    let (name, node) = (&entry.key.text, &entry.value);
    if name == MEMORY {
        let message = format!("`{MEMORY}` is the store of this process, and always there");
        report.error(entry.key_span, "value", message).help("use another name");
        return None;
    }
    let mut spec = RedisSpec::new(place(entry, report)?);
    spec.username = text(node, "username").map(str::to_owned);
    spec.password = password(node, files, report);
    spec.database = whole(node, "database");
    spec.prefix = text(node, "prefix").map(str::to_owned);
    spec.key_secret = key_secret(node, files, report);
    spec.deadline = time(node, "deadline");
    spec.connect_deadline = time(node, "connect_deadline");
    spec.in_flight_max = whole(node, "in_flight_max");
    spec.together_max = whole(node, "together_max");
    spec.tls_authority = node.get("tls_authority").and_then(|value| files.content(value, report));
    if let (RedisPlace::Cluster(_), Some(node), Some(database @ 1..)) =
        (&spec.place, node.get("database"), spec.database)
    {
        let message = format!("a cluster has no database {database}");
        report.error(node.span, "value", message).help("use 0, or leave it out");
    }
    Some(StoreSpec::Redis(name.clone(), Box::new(spec)))
}

fn place(entry: &Entry, report: &mut Report) -> Option<RedisPlace> {
    let node = &entry.value;
    let kinds = ["redis", "sentinel", "cluster"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| node.get(kind).is_some()).collect();
    if given.len() != 1 {
        let message = match given.as_slice() {
            [] => format!("the store `{}` does not say where its servers are", entry.key.text),
            several => {
                let several = several.join(" and ");
                format!("the store `{}` has {several}, and must have one of them", entry.key.text)
            }
        };
        report.error(entry.key_span, "one-of", message).choices("", kinds);
        return None;
    }
    if let Some(address) = text(node, "redis") {
        return Some(RedisPlace::Single(address.to_owned()));
    }
    if node.get("sentinel").is_some() {
        let addresses = texts(node, "sentinel.addresses");
        let service = text(node, "sentinel.service")?.to_owned();
        return Some(RedisPlace::Sentinel { addresses, service });
    }
    let nodes = texts(node, "cluster");
    if nodes.is_empty() {
        let message = format!("the store `{}` names no node of its cluster", entry.key.text);
        report.error(entry.key_span, "missing-key", message).help("name at least one");
        return None;
    }
    Some(RedisPlace::Cluster(nodes))
}

fn password(node: &Node, files: &mut Files, report: &mut Report) -> Option<String> {
    let file = node.get("password_file");
    let given = node.get("password");
    if let (Some(_), Some(given)) = (file, given) {
        let message = "both `password` and `password_file` are given";
        report.error(given.span, "one-of", message).help("keep `password_file`");
    }
    if let Some(file) = file {
        let content = files.content(file, report)?;
        return match String::from_utf8(content) {
            Ok(text) => Some(text.trim_end_matches(['\n', '\r']).to_owned()),
            Err(_) => {
                report.error(file.span, "file", "the password is not UTF-8");
                None
            }
        };
    }
    let scalar = given.and_then(Node::as_scalar)?;
    if let Some(given) = given.filter(|_| scalar.style != crate::config::yaml::Style::Given) {
        let message = "a password in a file that many can read";
        report.warning(given.span, "password", message).help("use `password_file`");
    }
    Some(scalar.text.clone())
}

fn key_secret(node: &Node, files: &mut Files, report: &mut Report) -> Option<Vec<u8>> {
    let file = node.get("key_secret_file")?;
    let mut secret = files.content(file, report)?;
    // Written by an editor, it ends in a line break that another node may not have.
    while secret.last().is_some_and(|byte| b"\r\n".contains(byte)) {
        secret.pop();
    }
    if secret.len() < KEY_SECRET_MIN {
        let message = format!("a key secret of {} bytes is too short", secret.len());
        let help = format!("use at least {KEY_SECRET_MIN}, the same on all nodes");
        report.error(file.span, "file", message).help(help);
        return None;
    }
    Some(secret)
}
