//! The limit of a descriptor.

use slidegate::{Algorithm, Quota};

use super::keys::check_map;
use super::scalar::{flag, requests, text, wrong_type};
use crate::config::check::check;
use crate::config::lint;
use crate::config::report::Report;
use crate::config::table::algorithm as read_algorithm;
use crate::config::yaml::{Node, Shape};
use crate::spec::{LimitSpec, RATE_LIMIT, RateSpec, Unit};

/// Reads the limit of a descriptor, or `None` if it has none.
pub(super) fn limit(node: &Node, extensions: bool, report: &mut Report) -> Option<LimitSpec> {
    let found = node.get("rate_limit")?;
    if !check_map("`rate_limit`", found, &RATE_LIMIT, extensions, report) {
        return None;
    }
    let name = text(found, "name", report);
    let replaces = replaces(found, name.as_deref(), report);
    let rate = if flag(found, "unlimited", report) {
        check_unlimited(found, report);
        None
    } else {
        Some(rate(found, extensions, report)?)
    };
    Some(LimitSpec { rate, name, replaces })
}

fn rate(node: &Node, extensions: bool, report: &mut Report) -> Option<RateSpec> {
    let requests_per_unit = requests(node, "requests_per_unit", report);
    if node.get("requests_per_unit").is_none() {
        let message = "without `requests_per_unit`, every request is denied";
        report.warning(node.span, "denies-all", message).help("write 0 if this is intended");
    }
    let unit = unit(node, report)?;
    let algorithm = if extensions { algorithm(node, report) } else { Algorithm::Log };
    if let Ok(quota) = Quota::new(u64::from(requests_per_unit), unit.window()) {
        let span = node.get("requests_per_unit").map_or(node.span, |found| found.span);
        lint::quota(quota, algorithm, span, span, report);
    }
    Some(RateSpec { requests: requests_per_unit, unit, algorithm })
}

fn unit(node: &Node, report: &mut Report) -> Option<Unit> {
    let names = || Unit::ALL.into_iter().map(Unit::name);
    let Some(word) = text(node, "unit", report) else {
        if node.get("unit").is_none() {
            let message = "rate limit without `unit`";
            report.error(node.span, "missing-key", message).choices("", names());
        }
        return None;
    };
    let unit = Unit::parse(&word);
    if let (None, Some(found)) = (unit, node.get("unit")) {
        let message = format!("unknown unit `{word}`");
        report.error(found.span, "unit", message).choices(&word, names());
    }
    unit
}

fn algorithm(node: &Node, report: &mut Report) -> Algorithm {
    let Some(found) = node.get("algorithm") else { return Algorithm::Log };
    if let Some(field) = RATE_LIMIT.field("algorithm") {
        check(field.name, found, &field.kind, report);
    }
    let algorithm = read_algorithm(found).unwrap_or_default();
    lint::algorithm(algorithm, found.span, report);
    algorithm
}

/// Rejects a unit with `unlimited`, as the reference service does.
fn check_unlimited(node: &Node, report: &mut Report) {
    if let Some(found) = node.get("unit") {
        let word = found.as_scalar().map_or("", |scalar| &scalar.text);
        if Unit::parse(word).is_some() {
            let message = "`unlimited` must not have a unit";
            let finding = report.error(found.span, "unlimited-unit", message);
            finding.help("remove `unit` or `unlimited`");
        }
    }
    for key in ["requests_per_unit", "algorithm"] {
        if let Some(found) = node.get(key) {
            let message = format!("`{key}` has no effect with `unlimited`");
            report.warning(found.span, "no-effect", message).help("remove it");
        }
    }
}

/// The name of an entry of `replaces` in messages.
const REPLACED: &str = "an item of `replaces`";

fn replaces(node: &Node, name: Option<&str>, report: &mut Report) -> Vec<String> {
    let Some(found) = node.get("replaces") else { return Vec::new() };
    let Shape::List(items) = &found.kind else {
        wrong_type(found, "replaces", "a list such as [{name: base}]", report);
        return Vec::new();
    };
    let mut names = Vec::with_capacity(items.len());
    for item in items {
        let Shape::Map(_) = item.kind else {
            let message = format!("{} must be a map, but is {}", REPLACED, item.what());
            report.error(item.span, "non-map-list", message).help("write `- name: base`");
            continue;
        };
        check_replaced_keys(item, report);
        match text(item, "name", report) {
            None => {
                let message = "`replaces` has an entry without a name";
                report.error(item.span, "replaces-empty", message).help("name a limit");
            }
            Some(replaced) if Some(replaced.as_str()) == name => {
                let message = format!("`{replaced}` replaces itself");
                report.error(item.span, "replaces-self", message).help("name another limit");
            }
            Some(replaced) => names.push(replaced),
        }
    }
    names
}

fn check_replaced_keys(item: &Node, report: &mut Report) {
    for entry in item.entries().iter().filter(|entry| entry.key.text != "name") {
        let message = format!("`{}` is not a key of {}", entry.key.text, REPLACED);
        report.error(entry.key_span, "unknown-key", message).choices(&entry.key.text, ["name"]);
    }
}
