//! A program to run: shown before it runs, its failure turned into a sentence.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Outcome;

/// `cargo` in `root`.
///
/// Taken from the search path, not from `$CARGO`: only rustup's own `cargo` knows `+nightly`.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    command
}

/// Shows the command, runs it, and says how it failed if it did.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = line(command);
    eprintln!("    $ {line}");
    let status = command.status().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{line}` failed with {status}"))
}

/// Whether a command succeeds; what it prints is thrown away.
pub(crate) fn succeeds(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// The command as one would type it, with the variables that were set for it.
fn line(command: &Command) -> String {
    let mut line = String::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            let _ = write!(line, "{}={} ", name.display(), quoted(value));
        }
    }
    let _ = write!(line, "{}", command.get_program().display());
    for argument in command.get_args() {
        let _ = write!(line, " {}", quoted(argument));
    }
    line
}

fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    if word.contains(' ') { format!("\"{word}\"") } else { word.into_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_can_be_typed() {
        let mut command = cargo(Path::new("."), &["test", "--doc"]);
        command.env("RUSTFLAGS", "--cfg shuttle");
        assert_eq!(line(&command), "RUSTFLAGS=\"--cfg shuttle\" cargo test --doc");
    }

    #[test]
    fn a_failing_program_is_an_error_that_names_it() {
        let reason = run(&mut cargo(Path::new("."), &["no-such-command"])).unwrap_err();
        assert!(reason.contains("cargo no-such-command"), "{reason}");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!succeeds("slidegate-no-such-program", &[]));
        assert!(succeeds("cargo", &["--version"]));
    }
}
