//! Rules.

use std::collections::{HashMap, HashSet};

use super::policy::check_name;
use crate::config::lint;
use crate::config::report::Report;
use crate::config::table::leaves::PATH_PATTERN;
use crate::config::table::{Read, Reader};
use crate::config::yaml::Node;
use crate::spec::{KeyPart, PolicySpec, RuleSpec};
use slidegate_gate::ASKS_MAX;
use slidegate_http::PathPattern;

/// Reads all rules of a tree.
pub(in crate::config) fn rules(
    root: &Node,
    policies: &[PolicySpec],
    reader: &mut Reader<'_>,
) -> Vec<RuleSpec> {
    let mut names = HashMap::new();
    let items = root.get("rules").map(Node::items).unwrap_or_default();
    let mut rules = Vec::with_capacity(items.len());
    for node in items {
        let Some(spec) = RuleSpec::read(node, reader) else { continue };
        let report = &mut *reader.report;
        check_name("rules", &spec.name, node, &mut names, report);
        check_rule(&spec, node, policies, report);
        rules.push(spec);
    }
    if let (Some((path, count)), Some(node)) = (most_together(&rules), root.get("rules")) {
        let message =
            format!("a request to {path} could match {count} rules, but the maximum is {ASKS_MAX}");
        let finding = reader.report.error(node.span, "too-many-rules", message);
        finding.help("use more specific paths");
    }
    rules
}

/// Returns the path that most rules match, if there are too many to check together. Hosts, methods
/// and headers are ignored: the count is an upper bound.
fn most_together(rules: &[RuleSpec]) -> Option<(String, usize)> {
    if rules.len() <= ASKS_MAX {
        return None;
    }
    let mut by_start: HashMap<&str, HashSet<usize>> = HashMap::new();
    let mut exact: HashMap<&str, HashSet<usize>> = HashMap::new();
    for (index, rule) in rules.iter().enumerate() {
        if rule.matches.paths.is_empty() {
            by_start.entry("").or_default().insert(index);
        }
        for path in &rule.matches.paths {
            match path.strip_suffix('*') {
                Some(start) => by_start.entry(start).or_default().insert(index),
                None => exact.entry(path).or_default().insert(index),
            };
        }
    }
    let together = |path: &str| {
        let ends = (0..=path.len()).filter(|end| path.is_char_boundary(*end));
        let starts = ends.filter_map(|end| by_start.get(&path[..end]));
        starts.chain(exact.get(path)).flatten().collect::<HashSet<_>>().len()
    };
    let most = by_start.keys().chain(exact.keys()).max_by_key(|path| together(path))?;
    Some(((*most).to_owned(), together(most))).filter(|(_, count)| *count > ASKS_MAX)
}

fn check_rule(spec: &RuleSpec, node: &Node, policies: &[PolicySpec], report: &mut Report) {
    let key_span = node.get("key").map_or(node.span, |key| key.span);
    if spec.key.is_empty() && node.get("key").is_some_and(|key| key.items().is_empty()) {
        let message = format!("the rule `{}` has an empty key", spec.name);
        let help = "use `[address]`, or `[{constant: all}]` to count all requests together";
        report.error(key_span, "value", message).help(help);
    }
    if spec.key.contains(&KeyPart::Path) && spec.matches.paths.is_empty() {
        let message = "the `path` of a key is the pattern in `match.path`, but this rule has none";
        let help = "set `match.path`, or remove the path from the key: with the path of the request, a client could get a new key for every request";
        report.error(key_span, "key-path", message).help(help);
    }
    let never = |pattern: &PathPattern<'_>| {
        (PATH_PATTERN.check)(pattern.as_str()).is_ok() && !pattern.is_matchable()
    };
    if let Some(pattern) = spec.matches.path_patterns().find(never) {
        let span = node.find("match.path").map_or(node.span, |path| path.span);
        let message = format!("no path matches `{}` in its normalized form", pattern.as_str());
        let help = "write it decoded, without parameters, empty segments and dot segments, or set `path_match: exact`";
        report.error(span, "value", message).help(help);
    }
    let Some(policy) = policies.iter().find(|policy| policy.name == spec.policy) else {
        let span = node.get("policy").map_or(node.span, |policy| policy.span);
        let message = format!("unknown policy `{}`", spec.policy);
        let names = policies.iter().map(|policy| policy.name.as_str());
        report.error(span, "unknown-policy", message).choices(&spec.policy, names);
        return;
    };
    if let (Some(header), true) = (node.get("tier_header"), policy.tiers.is_empty()) {
        let message = format!("the policy `{}` has no tiers", policy.name);
        let finding = report.warning(header.span, "no-effect", message);
        finding.help("add `tiers` to the policy, or remove `tier_header`");
    }
    lint::rule(spec, policy, key_span, report);
}
