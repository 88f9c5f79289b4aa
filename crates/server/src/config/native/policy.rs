//! Policies.

use std::collections::HashMap;

use slidegate::{Policy, Quota};

use super::store_names;
use crate::config::lint;
use crate::config::report::Report;
use crate::config::source::Span;
use crate::config::table::{Read, Reader};
use crate::config::yaml::Node;
use crate::spec::{CANDIDATE_SUFFIX, MEMORY, PolicySpec, THROTTLE, UNITS_PREFIX};

/// Settings that apply only to shared stores.
const SHARED_ONLY: [&str; 5] = ["failure_mode", "nodes", "guard_band", "deny_cache", "leases"];

/// Reads all policies of a tree.
pub(in crate::config) fn policies(root: &Node, reader: &mut Reader<'_>) -> Vec<PolicySpec> {
    let mut names = HashMap::new();
    let items = root.get("policies").map(Node::items).unwrap_or_default();
    let mut policies = Vec::with_capacity(items.len());
    for node in items {
        let spec: Option<PolicySpec> = Read::read(node, reader);
        let report = &mut *reader.report;
        // A policy without a name or quotas is incomplete, which has been reported.
        let (Some(spec), Some(quotas)) = (spec, node.get("quotas")) else { continue };
        if spec.quotas.is_empty() && quotas.items().is_empty() && quotas.as_scalar().is_none() {
            let message = format!("the policy `{}` has no quota", spec.name);
            report.error(quotas.span, "value", message).help("use one to eight");
        }
        check_name("policies", &spec.name, node, &mut names, report);
        check_reserved(&spec.name, node, report);
        check_policy(&spec, node, report);
        check_store(&spec, node, root, report);
        lint::policy(&spec, node, report);
        policies.push(spec);
    }
    policies
}

/// Reports a name that another item of the same kind has.
pub(super) fn check_name(
    kind: &str,
    name: &str,
    node: &Node,
    names: &mut HashMap<String, Span>,
    report: &mut Report,
) {
    let span = node.get("name").map_or(node.span, |name| name.span);
    if let Some(first) = names.insert(name.to_owned(), span) {
        let message = format!("two {kind} are named `{name}`");
        let finding = report.error(span, "duplicate-name", message);
        finding.related(first, "the first is here").help("use another name");
    }
}

/// Reports a name under which the daemon keeps other counts.
fn check_reserved(name: &str, node: &Node, report: &mut Report) {
    let what = match name {
        THROTTLE => "`CL.THROTTLE`",
        _ if name.starts_with(UNITS_PREFIX) => "Envoy's domains",
        _ if name.ends_with(CANDIDATE_SUFFIX) => "candidates of policies",
        _ => return,
    };
    let span = node.get("name").map_or(node.span, |name| name.span);
    let message = format!("`{name}` is reserved for the counts of {what}");
    report.error(span, "reserved-name", message).help("use another name");
}

/// Reports, with its place, what the library would reject later.
fn check_policy(spec: &PolicySpec, node: &Node, report: &mut Report) {
    if spec.quotas.is_empty() {
        return;
    }
    let built =
        Policy::builder(&spec.name).quotas(spec.quotas.clone()).algorithm(spec.algorithm).build();
    if let (Err(error), false) = (built, report.has_errors()) {
        report.error(node.span, "policy", error.to_string());
    }
    for entry in node.get("tiers").map(Node::entries).unwrap_or_default() {
        let Some(tier) = spec.tiers.get(&entry.key.text).filter(|tier| !tier.is_empty()) else {
            let message = format!("the tier `{}` has no quota", entry.key.text);
            report.error(entry.key_span, "value", message).help("use one to eight");
            continue;
        };
        check_tier(tier, spec, entry.value.span, report);
    }
    let candidate = spec.candidate.as_ref().filter(|it| it.quotas.len() > spec.quotas.len());
    if let (Some(candidate), Some(node)) = (candidate, node.find("candidate.quotas")) {
        let (given, most) = (candidate.quotas.len(), spec.quotas.len());
        let message = format!("the candidate has {given} quotas, but the policy has {most}");
        report.error(node.span, "value", message).help("use the same number, or fewer");
    }
    check_leases(spec, node, report);
}

fn check_tier(quotas: &[Quota], spec: &PolicySpec, span: Span, report: &mut Report) {
    let log = spec.algorithm.keeps_entries();
    let (given, most) = (quotas.len(), spec.quotas.len());
    if given == most || (log && given < most) {
        return;
    }
    let message = format!("the tier has {given} quotas, but the policy has {most}");
    let help = if log { "use the same number, or fewer" } else { "use as many" };
    report.error(span, "value", message).help(help);
}

fn check_leases(spec: &PolicySpec, node: &Node, report: &mut Report) {
    let (Some(length), Some(node)) = (spec.shared.leases, node.get("leases")) else { return };
    if !spec.algorithm.supports_future_entries() {
        let message = "this algorithm does not support leases";
        report.error(node.span, "value", message).help("use log, log_capped or gcra");
    }
    let shortest = spec.quotas.iter().map(Quota::window).min().unwrap_or_default();
    if length > shortest {
        let message = "the lease is longer than the shortest window";
        report.error(node.span, "range", message).help("use a few milliseconds");
    }
}

fn check_store(spec: &PolicySpec, node: &Node, root: &Node, report: &mut Report) {
    if spec.store == MEMORY {
        for key in SHARED_ONLY {
            if let Some(value) = node.get(key) {
                let message = format!("`{key}` has no effect in memory");
                let finding = report.warning(value.span, "no-effect", message);
                finding.help("set `store` to a shared store, or remove it");
            }
        }
        return;
    }
    let Some(value) = node.get("store") else { return };
    let Some(store) = root.get("stores").and_then(|stores| stores.get(&spec.store)) else {
        unknown_store(&spec.store, value.span, &store_names(root), report);
        return;
    };
    let lacks = spec.secret_keys && store.get("key_secret_file").is_none();
    if let (true, Some(flag)) = (lacks, node.get("secret_keys")) {
        let message = format!("secret keys need a secret, but the store `{}` has none", spec.store);
        let finding = report.error(flag.span, "missing-key", message);
        finding.help(format!("add `key_secret_file` to the store `{}`", spec.store));
    }
}

/// Reports a store that does not exist, with the names of all stores, including invalid ones.
pub(in crate::config) fn unknown_store(
    name: &str,
    span: Span,
    names: &[&str],
    report: &mut Report,
) {
    if !names.contains(&name) {
        let message = format!("unknown store `{name}`");
        report.error(span, "unknown-store", message).choices(name, names.iter().copied());
    }
}
