//! From a file to tests.

use core::time::Duration;
use std::path::Path;

use slidegate::Cost;

use super::table::FILE;
use super::{Asked, Expected, HttpRequest, Scenario, Step, Test};
use crate::config::check::check_section;
use crate::config::files::{Files, resolve};
use crate::config::leaf;
use crate::config::loaded::Refused;
use crate::config::report::{Report, Severity};
use crate::config::source::Origin;
use crate::config::yaml::{Node, parse};

/// Reads a file of tests.
///
/// # Errors
///
/// When anything is wrong with it; all that is wrong is told at once.
pub fn read(path: &Path) -> Result<Scenario, Box<Refused>> {
    let mut report = Report::default();
    let mut files = Files::new(true);
    let scenario = match files.config(path) {
        Ok(text) => {
            let whole = report.sources.add(Origin::File(path.to_owned()), text.clone());
            parse(&text, whole, &mut report).map(|document| scenario(&document.root, &mut report))
        }
        Err(problem) => {
            report.general(Severity::Error, "file", problem).help("check the path");
            None
        }
    };
    match scenario {
        Some(scenario) if !report.has_errors() => Ok(scenario),
        _ => Err(Box::new(Refused::new(report, files.into_paths()))),
    }
}

fn scenario(root: &Node, report: &mut Report) -> Scenario {
    check_section("the file", root, &FILE, report);
    let config = root.get("config").and_then(|config| resolve(config, report));
    let items = root.get("tests").map(Node::items).unwrap_or_default();
    let tests = items.iter().map(|node| test(node, report)).collect();
    Scenario { config, tests }
}

fn test(node: &Node, report: &mut Report) -> Test {
    let mut before = Duration::ZERO;
    let mut steps = Vec::new();
    for item in node.get("steps").map(Node::items).unwrap_or_default() {
        let at = text(item, "at").and_then(|at| leaf::time(at).ok()).unwrap_or(before);
        if at < before {
            let span = item.get("at").map_or(item.span, |at| at.span);
            let message =
                format!("a step at {} behind one at {}", leaf::show(at), leaf::show(before));
            report.error(span, "time", message).help("put steps in the order of time");
        }
        before = before.max(at);
        if let Some(ask) = asked(item, report) {
            steps.push(step(item, before, ask, report));
        }
    }
    Test { name: text(node, "name").unwrap_or_default().to_owned(), steps }
}

fn step(node: &Node, at: Duration, ask: Asked, report: &mut Report) -> Step {
    let expect = Expected {
        allowed: text(node, "expect") == Some("allow"),
        remaining: whole(node, "remaining"),
        retry_after: text(node, "retry_after").and_then(|wait| leaf::time(wait).ok()),
    };
    if let (true, Some(_), Some(wait)) =
        (expect.allowed, expect.retry_after, node.get("retry_after"))
    {
        let message = "an allowed request has nothing to wait for";
        report.error(wait.span, "value", message).help("leave `retry_after` out");
    }
    let line = report.line(node.span);
    Step { at, ask, times: whole(node, "times").unwrap_or(1), expect, line }
}

fn asked(node: &Node, report: &mut Report) -> Option<Asked> {
    let kinds = ["policy", "request", "domain"];
    let given: Vec<&str> = kinds.into_iter().filter(|kind| node.get(kind).is_some()).collect();
    if given.len() != 1 {
        let message = format!("a step asks {} of these, and must ask one", given.len());
        report.error(node.span, "one-of", message).choices("", kinds);
        return None;
    }
    if let Some(policy) = text(node, "policy") {
        let key = needed(node, "key", "policy", report)?.as_scalar()?.text.clone();
        let cost = whole::<u64>(node, "cost").and_then(|units| Cost::new(units).ok());
        let tier = text(node, "tier").map(str::to_owned);
        return Some(Asked::Policy {
            policy: policy.to_owned(),
            key,
            tier,
            cost: cost.unwrap_or(Cost::ONE),
        });
    }
    if let Some(found) = node.get("request") {
        return request(found).map(Asked::Request);
    }
    let list = needed(node, "descriptors", "domain", report)?;
    let entries = |item: &Node| item.items().iter().filter_map(entry).collect();
    Some(Asked::Descriptors {
        domain: text(node, "domain")?.to_owned(),
        descriptors: list.items().iter().map(entries).collect(),
        hits: whole(node, "hits").unwrap_or(1),
    })
}

fn needed<'a>(node: &'a Node, key: &str, by: &str, report: &mut Report) -> Option<&'a Node> {
    let found = node.get(key);
    if found.is_none() {
        let message = format!("`{by}` needs `{key}`");
        report.error(node.span, "missing-key", message).help(format!("add `{key}`"));
    }
    found
}

fn entry(node: &Node) -> Option<(String, String)> {
    let entry = node.entries().first()?;
    Some((entry.key.text.clone(), entry.value.as_scalar()?.text.clone()))
}

fn request(node: &Node) -> Option<HttpRequest> {
    let mut request = HttpRequest::get(text(node, "path")?);
    if let Some(method) = text(node, "method") {
        method.clone_into(&mut request.method);
    }
    if let Some(host) = text(node, "host") {
        host.clone_into(&mut request.host);
    }
    if let Some(address) = text(node, "address").and_then(|address| address.parse().ok()) {
        request.address = address;
    }
    for entry in node.get("headers").map(Node::entries).unwrap_or_default() {
        if let Some(value) = entry.value.as_scalar() {
            request.headers.push((entry.key.text.to_ascii_lowercase(), value.text.clone()));
        }
    }
    Some(request)
}

fn text<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.get(key).and_then(Node::as_scalar).map(|scalar| scalar.text.as_str())
}

fn whole<T: TryFrom<i128>>(node: &Node, key: &str) -> Option<T> {
    let number = node.get(key).and_then(Node::as_scalar).and_then(leaf::whole)?;
    T::try_from(number).ok()
}
