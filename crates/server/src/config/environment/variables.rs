//! Variables of the daemon, such as `SLIDEGATE_LISTEN_HTTP`, and flags.

use super::Environment;
use crate::config::report::Report;
use crate::config::source::Origin;
use crate::config::table::{self, VARIABLE_PREFIX};
use crate::config::yaml::{Node, Scalar};

/// Variables that are read elsewhere.
const ELSEWHERE: [&str; 2] = ["SLIDEGATE_CONFIG", "SLIDEGATE_ADDRESS"];

/// Variables that have the same meaning in every program. The last one takes precedence.
const STANDARD: [(&str, &str); 2] = [
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "tracing.endpoint"),
    ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "tracing.endpoint"),
];

/// Applies variables that are common to many programs.
pub(in crate::config) fn standard(environment: &Environment, root: &mut Node, report: &mut Report) {
    for (name, path) in STANDARD {
        if let Some(value) = environment.get(name) {
            put(root, path, Origin::Environment(name.to_owned()), value, report);
        }
    }
}

/// Applies the variables of the daemon.
pub(in crate::config) fn variables(
    environment: &Environment,
    root: &mut Node,
    report: &mut Report,
) {
    let mut known = Vec::new();
    for (path, _) in table::settings() {
        let name = table::variable(&path);
        if let Some(value) = environment.get(&name) {
            put(root, &path, Origin::Environment(name.clone()), value, report);
        }
        known.push(name);
    }
    for name in environment.names().filter(|name| name.starts_with(VARIABLE_PREFIX)) {
        if known.iter().any(|known| known == name) || ELSEWHERE.contains(&name) {
            continue;
        }
        let value = environment.get(name).unwrap_or_default();
        let span = report.sources.add_pair(Origin::Environment(name.to_owned()), value);
        let message = format!("unknown variable {name}");
        let finding = report.warning(span, "unknown-variable", message);
        finding
            .choices(name, known.iter().map(String::as_str))
            .help("variables are named after settings: SLIDEGATE_LISTEN_HTTP is `listen.http`");
    }
}

/// Applies flags, which are named by the paths of their settings.
pub(in crate::config) fn flags(flags: &[(String, String)], root: &mut Node, report: &mut Report) {
    let known = table::settings();
    for (path, value) in flags {
        let origin = Origin::Flag(path.clone());
        if known.iter().any(|(known, _)| known == path) {
            put(root, path, origin, value, report);
            continue;
        }
        let span = report.sources.add_pair(origin, value).at_start();
        let message = format!("unknown setting `{path}`");
        let names = known.iter().map(|(path, _)| path.as_str());
        report.error(span, "unknown-setting", message).choices(path, names);
    }
}

/// Sets a value with its origin at a path.
pub(super) fn put(root: &mut Node, path: &str, origin: Origin, value: &str, report: &mut Report) {
    let span = report.sources.add_pair(origin, value);
    root.put(path, Node::scalar(Scalar::given(value), span));
}
