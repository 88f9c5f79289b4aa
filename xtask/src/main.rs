//! The repository's own commands: `cargo xtask test` and its parts.
//!
//! Plain `std`, so that a fresh machine builds it in a second or two.

#![forbid(unsafe_code)]

mod command;
mod examples;
mod fuzz;
mod install;
mod packages;
mod test;
mod tidy;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// What a command answers; the text says what failed and what to do about it.
type Outcome = Result<(), String>;

const HELP: &str = "\
The repository's own commands.

    cargo xtask test             everything a change must pass; .ci/run calls exactly this
    cargo xtask tidy             the house rules that no compiler checks
    cargo xtask examples         runs each example once
    cargo xtask fuzz [SECONDS]   runs each fuzz target (60 s by default); needs nightly, cargo-fuzz
    cargo xtask help             this text

`test` runs, in this order, and stops at the first failure:

    format        cargo fmt, check only
    clippy        all packages and targets, no warnings
    tests         cargo nextest, or cargo test where nextest is missing
    tracing       the daemon with spans, which no other step builds
    doc tests     every example in the documentation
    docs          cargo doc without warnings
    packages      clippy over each published package by itself, with its own features only
    tidy          cargo xtask tidy
    shuttle       the concurrency checker over crates/core, in its own target directory
    examples      cargo xtask examples
    instructions  instructions per check against the recorded ones, by callgrind

What is missing and can be had is installed, and said: rustfmt and clippy by rustup; valgrind and the
servers that tests start (redis-server, redis-tools, libfaketime, python3-pip, curl, nginx, haproxy) by
apt-get when root. Without valgrind the last step is skipped, and said; without the servers the tests
fail.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("xtask: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[&str]) -> Outcome {
    let root = root();
    match words {
        ["test"] => test::run(&root),
        ["tidy"] => tidy::run(&root),
        ["examples"] => examples::run(&root),
        ["fuzz"] => fuzz::run(&root, fuzz::SECONDS),
        ["fuzz", seconds] => fuzz::run(&root, fuzz::parse_seconds(seconds)?),
        ["help" | "--help" | "-h"] => help(),
        [] => Err(format!("name a command\n\n{HELP}")),
        _ => Err(format!("there is no command `{}`\n\n{HELP}", words.join(" "))),
    }
}

fn help() -> Outcome {
    io::stdout().write_all(HELP.as_bytes()).map_err(|error| format!("cannot print: {error}"))
}

/// The repository: the folder that holds this package's folder.
fn root() -> PathBuf {
    // Cargo names the folder at run time too; that one is right even if the checkout was moved
    // after this program was built.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_is_named_and_answered_with_the_help() {
        let reason = run(&["tset"]).unwrap_err();
        assert!(reason.contains("`tset`") && reason.contains("cargo xtask test"), "{reason}");
    }

    #[test]
    fn too_many_words_are_refused_before_anything_runs() {
        assert!(run(&["test", "fast"]).is_err());
    }

    #[test]
    fn the_root_holds_the_workspace() {
        assert!(root().join("xtask/Cargo.toml").is_file());
    }

    #[test]
    fn the_help_names_every_step_of_test() {
        for step in test::STEPS {
            assert!(HELP.contains(&format!("    {} ", step.name)), "{} is missing", step.name);
        }
    }
}
