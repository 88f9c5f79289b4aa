//! `cargo xtask test`: all checks that a change must pass, in one command.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::command::{self, cargo};
use crate::{Outcome, book, deploy, examples, install, node, packages, python, tidy};

/// One check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    check: fn(&Path) -> Result<Done, String>,
}

/// The result of a step that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Done {
    Passed,
    /// Nothing was checked, for this reason.
    Skipped(&'static str),
}

/// All steps, in this order. The fast ones come first, so that a simple mistake shows within seconds.
pub(crate) const STEPS: &[Step] = &[
    Step { name: "format", check: format },
    Step { name: "clippy", check: clippy },
    Step { name: "tests", check: tests },
    Step { name: "tracing", check: tracing },
    Step { name: "doc tests", check: doc_tests },
    Step { name: "docs", check: docs },
    Step { name: "packages", check: |root| passed(packages::check(root)) },
    Step { name: "tidy", check: |root| passed(tidy::run(root)) },
    Step { name: "book", check: |root| passed(book::run(root)) },
    Step { name: "shuttle", check: shuttle },
    Step { name: "examples", check: |root| passed(examples::run(root)) },
    Step { name: "deploy", check: |root| passed(deploy::run(root)) },
    Step { name: "node", check: |root| passed(node::run(root)) },
    Step { name: "python", check: |root| passed(python::run(root)) },
    Step { name: "instructions", check: instructions },
];

/// Runs all steps, and stops at the first failure.
pub(crate) fn run(root: &Path) -> Outcome {
    run_steps(root, STEPS).map(|summary| eprintln!("\n{summary}"))
}

fn run_steps(root: &Path, steps: &[Step]) -> Result<String, String> {
    let mut ended = Vec::with_capacity(steps.len());
    for (index, step) in steps.iter().enumerate() {
        eprintln!("\n[{}/{}] {}", index + 1, steps.len(), step.name);
        let started = now();
        let done = (step.check)(root)
            .map_err(|reason| format!("step `{}` failed: {reason}", step.name))?;
        if let Done::Skipped(reason) = done {
            eprintln!("    skipped: {reason}");
        }
        ended.push((step.name, done, started.elapsed()));
    }
    Ok(summary(&ended))
}

fn summary(ended: &[(&str, Done, Duration)]) -> String {
    let total: Duration = ended.iter().map(|(_, _, took)| *took).sum();
    let skipped = ended.iter().filter(|(_, done, _)| *done != Done::Passed).count();
    let mut parts = Vec::with_capacity(ended.len());
    for (name, done, took) in ended {
        parts.push(match done {
            Done::Passed => format!("{name} {}", seconds(*took)),
            Done::Skipped(_) => format!("{name} skipped"),
        });
    }
    let verdict = match skipped {
        0 => "all passed".to_owned(),
        _ => format!("passed, {skipped} skipped"),
    };
    format!("xtask test: {verdict} in {} ({})", seconds(total), parts.join(", "))
}

/// Formats a duration in seconds with one decimal, rounded down.
fn seconds(took: Duration) -> String {
    format!("{}.{} s", took.as_secs(), took.subsec_millis() / 100)
}

fn format(root: &Path) -> Result<Done, String> {
    install::component("rustfmt", "fmt")?;
    command::run(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    // `fuzz` is a separate workspace, so `--all` does not include it.
    let fuzz = ["fmt", "--manifest-path", "fuzz/Cargo.toml", "--check"];
    passed(command::run(&mut cargo(root, &fuzz)))
}

fn clippy(root: &Path) -> Result<Done, String> {
    install::component("clippy", "clippy")?;
    let arguments = ["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"];
    passed(command::run(&mut cargo(root, &arguments)))
}

fn tests(root: &Path) -> Result<Done, String> {
    install::servers()?;
    if command::succeeds("cargo", &["nextest", "--version"]) {
        return passed(command::run(&mut cargo(root, &["nextest", "run", "--workspace"])));
    }
    eprintln!("    cargo-nextest is not installed: the slower cargo test runs the same tests");
    passed(command::run(&mut cargo(root, &["test", "--workspace", "--all-targets"])))
}

/// Checks the `otlp` feature, which no other step enables. The dependencies are those of the other
/// steps, so only one crate is built again.
fn tracing(root: &Path) -> Result<Done, String> {
    let feature = ["--workspace", "--features", "slidegate-server/otlp", "--test", "daemon"];
    let mut clippy = cargo(root, &["clippy"]);
    command::run(clippy.args(feature).args(["--", "-D", "warnings"]))?;
    let has_nextest = command::succeeds("cargo", &["nextest", "--version"]);
    let mut test = cargo(root, if has_nextest { &["nextest", "run"] } else { &["test"] });
    passed(command::run(test.args(feature).arg("spans::")))
}

fn doc_tests(root: &Path) -> Result<Done, String> {
    passed(command::run(&mut cargo(root, &["test", "--workspace", "--doc"])))
}

fn docs(root: &Path) -> Result<Done, String> {
    // With the examples, the dependencies have the same features as in the clippy step. Without them,
    // tokio, hyper and their dependents would be checked again.
    let targets = ["--lib", "--bins", "--examples"];
    let mut command = cargo(root, &["doc", "--workspace", "--no-deps"]);
    passed(command::run(command.args(targets).env("RUSTDOCFLAGS", "-D warnings")))
}

fn shuttle(root: &Path) -> Result<Done, String> {
    if !root.join("crates/core/tests/shuttle.rs").is_file() {
        return Ok(Done::Skipped("there is no crates/core/tests/shuttle.rs"));
    }
    // The flag rebuilds everything, so this step has a separate target directory.
    let mut command = cargo(root, &["test", "--package", "slidegate", "--test", "shuttle"]);
    command.env("RUSTFLAGS", with_shuttle(env::var_os("RUSTFLAGS")));
    command.env("CARGO_TARGET_DIR", command::target(root).join("shuttle"));
    passed(command::run(&mut command))
}

fn instructions(root: &Path) -> Result<Done, String> {
    if !install::valgrind() {
        return Ok(Done::Skipped("there is no valgrind to count instructions with"));
    }
    // Without its default features, the benchmark is built without servers, clients and middleware,
    // whose instructions are not counted.
    let arguments = ["run", "--release", "--package", "slidegate-bench", "--no-default-features"];
    let mut command = cargo(root, &arguments);
    passed(command::run(command.args(["--", "instructions", "--compare"])))
}

fn passed(outcome: Outcome) -> Result<Done, String> {
    outcome.map(|()| Done::Passed)
}

/// Appends to the caller's flags, because setting the variable would replace them.
fn with_shuttle(flags: Option<OsString>) -> OsString {
    let mut flags = flags.unwrap_or_default();
    if !flags.is_empty() {
        flags.push(" ");
    }
    flags.push("--cfg shuttle");
    flags
}

#[expect(clippy::disallowed_methods, reason = "the duration of a step is only printed")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_first_failure_and_names_it() {
        // The third step panics if it runs.
        let steps = [
            Step { name: "one", check: |_| Ok(Done::Passed) },
            Step { name: "two", check: |_| Err("it broke".to_owned()) },
            Step { name: "three", check: |_| panic!("ran after a failure") },
        ];
        let reason = run_steps(Path::new("."), &steps).unwrap_err();
        assert_eq!(reason, "step `two` failed: it broke");
    }

    #[test]
    fn the_summary_counts_skipped_steps() {
        let ended = [
            ("one", Done::Passed, Duration::from_millis(1250)),
            ("two", Done::Skipped("why"), Duration::ZERO),
        ];
        let expected = "xtask test: passed, 1 skipped in 1.2 s (one 1.2 s, two skipped)";
        assert_eq!(summary(&ended), expected);
        assert_eq!(summary(&ended[..1]), "xtask test: all passed in 1.2 s (one 1.2 s)");
    }

    #[test]
    fn keeps_the_callers_flags() {
        assert_eq!(with_shuttle(None), "--cfg shuttle");
        assert_eq!(with_shuttle(Some("-C lto".into())), "-C lto --cfg shuttle");
    }
}
