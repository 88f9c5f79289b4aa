//! Reads test files.

use core::time::Duration;
use std::path::Path;

use slidegate::format_duration;

use super::{Expected, ExpectedDecision, FILE, STEP, Scenario, ScenarioRequest, Step, StepKeys};
use crate::config::check::check_section;
use crate::config::files::Files;
use crate::config::load::InvalidConfig;
use crate::config::report::{Report, Severity};
use crate::config::source::Origin;
use crate::config::table::{Pairs, Read, Reader, given};
use crate::config::yaml::{Node, parse};

/// Reads a test file.
///
/// # Errors
///
/// Returns all errors of the file at once.
pub fn read(path: &Path) -> Result<Scenario, Box<InvalidConfig>> {
    let mut report = Report::default();
    let mut files = Files::new(true);
    let scenario = match files.config(path) {
        Ok(text) => {
            let whole = report.sources.add(Origin::File(path.to_owned()), text.clone());
            parse(&text, whole, &mut report)
                .and_then(|document| scenario(&document.root, &mut files, &mut report))
        }
        Err(problem) => {
            report.general(Severity::Error, "file", problem).help("check the path");
            None
        }
    };
    match scenario {
        Some(scenario) if !report.has_errors() => Ok(scenario),
        _ => Err(Box::new(InvalidConfig::new(report, files.into_paths()))),
    }
}

fn scenario(root: &Node, files: &mut Files, report: &mut Report) -> Option<Scenario> {
    check_section("the file", root, &FILE, report);
    Scenario::read(root, &mut Reader { files, report })
}

/// Reads the steps of a test, ordered by time.
pub(super) fn steps(test: &Node, reader: &mut Reader<'_>) -> Vec<Step> {
    let mut before = Duration::ZERO;
    let mut steps = Vec::new();
    for node in test.get("steps").map(Node::items).unwrap_or_default() {
        let Some(keys) = StepKeys::read(node, reader) else { continue };
        let report = &mut *reader.report;
        let at = keys.at.unwrap_or(before);
        if at < before {
            let span = node.get("at").map_or(node.span, |at| at.span);
            let message = format!(
                "a step at {} after one at {}",
                format_duration(at),
                format_duration(before)
            );
            report.error(span, "time", message).help("order the steps by time");
        }
        before = before.max(at);
        steps.extend(step(node, before, keys, report));
    }
    steps
}

pub(super) fn expect(step: &Node, reader: &mut Reader<'_>) -> Option<ExpectedDecision> {
    given(&STEP, "expect", step, reader)
}

fn step(node: &Node, at: Duration, keys: StepKeys, report: &mut Report) -> Option<Step> {
    let StepKeys { times, remaining, retry_after, .. } = keys;
    let allowed = keys.expect == Some(ExpectedDecision::Allow);
    let ask = asked(node, keys, report)?;
    if let (true, Some(_), Some(wait)) = (allowed, retry_after, node.get("retry_after")) {
        let message = "an allowed request has no `retry_after`";
        report.error(wait.span, "value", message).help("remove `retry_after`");
    }
    let expect = Expected { allowed, remaining, retry_after };
    Some(Step { at, ask, times, expect, line: report.line(node.span) })
}

fn asked(node: &Node, keys: StepKeys, report: &mut Report) -> Option<ScenarioRequest> {
    let kinds = ["policy", "request", "domain"];
    let given = kinds.into_iter().filter(|kind| node.get(kind).is_some()).count();
    if given != 1 {
        let message = format!(
            "a step must have exactly one of `policy`, `request` and `domain`, but has {given}"
        );
        report.error(node.span, "one-of", message).choices("", kinds);
        return None;
    }
    let mut needed = |key: &str, by: &str| {
        if node.get(key).is_none() {
            let message = format!("`{by}` needs `{key}`");
            report.error(node.span, "missing-key", message).help(format!("add `{key}`"));
        }
    };
    let StepKeys { key, tier, cost, hits, descriptors, .. } = keys;
    if let Some(policy) = keys.policy {
        needed("key", "policy");
        return Some(ScenarioRequest::Policy { policy, key: key?, tier, cost });
    }
    if keys.request.is_some() || node.get("request").is_some() {
        return keys.request.map(ScenarioRequest::Request);
    }
    needed("descriptors", "domain");
    let entries =
        |entries: Vec<Pairs>| entries.into_iter().flat_map(|Pairs(pairs)| pairs).collect();
    let descriptors = descriptors?.into_iter().map(entries).collect();
    Some(ScenarioRequest::Descriptors { domain: keys.domain?, descriptors, hits })
}
