//! `config check`: runs what `serve` runs before it listens. It loads the configuration, checks the settings
//! against this build and this machine, and makes the limits.

use std::io::{self, Write};

use serde_json::json;

use super::written;
use crate::cli::exit;
use crate::config::report::{Diagnostic, Severity, write_json, write_text};
use crate::config::{Loaded, Request, load};
use crate::engine::Engine;
use crate::gates::NoRestore;
use crate::run::{build_problems, preflight};

/// How findings are written, and which of them are failures.
#[derive(Debug, Clone, Copy, Default)]
pub struct CheckOptions {
    /// Whether warnings are failures too. Notes never are.
    pub deny_warnings: bool,
    /// Whether to write one JSON object per line, for programs.
    pub json: bool,
    /// Whether to write in colors.
    pub colors: bool,
}

/// Checks each request separately, and reports all of its errors.
///
/// Returns exit code 78 if there is a failure.
pub fn check(requests: &[Request], options: CheckOptions, out: &mut dyn Write) -> u8 {
    let mut code = exit::OK;
    for request in requests {
        let outcome = look_at(request);
        let bad = |finding: &&Diagnostic| {
            finding.is_error() || (options.deny_warnings && finding.severity == Severity::Warning)
        };
        let count = outcome.findings.iter().filter(bad).count();
        if count > 0 {
            code = exit::CONFIG;
        }
        if let Err(error) = print(request, &outcome, count, options, out) {
            return written(Err(error), code);
        }
    }
    code
}

/// The result of checking one request.
struct Outcome {
    findings: Vec<Diagnostic>,
    /// A summary of the configuration, if it could be loaded.
    holds: Option<String>,
}

fn look_at(request: &Request) -> Outcome {
    match load(request) {
        Err(refused) => Outcome { findings: refused.findings, holds: None },
        Ok(Loaded { settings, spec, warnings, .. }) => {
            let mut findings: Vec<Diagnostic> = if request.secrets {
                start_findings(&preflight(&settings))
            } else {
                start_findings(&build_problems(&settings))
            };
            if let Err(error) = Engine::new(&spec, &mut NoRestore) {
                findings.push(Diagnostic::general(Severity::Error, "engine", error.to_string()));
            }
            let holds = findings.is_empty().then(|| spec.counts());
            findings.extend(warnings);
            Outcome { findings, holds }
        }
    }
}

/// What keeps the daemon from starting, as findings.
pub(in crate::cli) fn start_findings(problems: &[String]) -> Vec<Diagnostic> {
    let finding = |problem: &String| Diagnostic::general(Severity::Error, "start", problem.clone());
    problems.iter().map(finding).collect()
}

fn print(
    request: &Request,
    outcome: &Outcome,
    bad: usize,
    options: CheckOptions,
    out: &mut dyn Write,
) -> Result<(), io::Error> {
    let paths: Vec<String> = request.paths.iter().map(|path| path.display().to_string()).collect();
    let name = paths.join(", ");
    let message = match (&outcome.holds, bad) {
        (Some(holds), 0) => format!("good: {holds}"),
        (_, 1) => "bad: 1 finding".to_owned(),
        (_, bad) => format!("bad: {bad} findings"),
    };
    if options.json {
        write_json(out, &outcome.findings)?;
        let summary = json!({
            "severity": "note", "code": "summary", "message": message, "file": name, "good": bad == 0,
        });
        return writeln!(out, "{summary}");
    }
    write_text(out, &outcome.findings, options.colors)?;
    writeln!(out, "{name}: {message}")
}
