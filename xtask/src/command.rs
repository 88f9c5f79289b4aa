//! Runs programs: prints the command first and turns a failure into a message.

use std::env;
use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Outcome;

/// Returns a `cargo` command that runs in `root`.
///
/// `cargo` comes from the search path, not from `$CARGO`: only rustup's proxy knows `+nightly`.
///
/// The variables that describe this package are removed. `cargo run` sets them, and some build scripts
/// run again when they change: a build after `cargo xtask` would compile `ring` and its dependents again.
pub(crate) fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(root).args(arguments);
    for (name, _) in env::vars_os() {
        let is_of_this_package = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if is_of_this_package {
            command.env_remove(name);
        }
    }
    command
}

/// Prints the command and runs it. The error names the command and its exit status.
pub(crate) fn run(command: &mut Command) -> Outcome {
    let line = line(command);
    eprintln!("    $ {line}");
    let status = command.status().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if status.success() {
        return Ok(());
    }
    Err(format!("`{line}` failed with {status}"))
}

/// Runs the command and returns what it prints. The error contains its messages.
pub(crate) fn output(command: &mut Command) -> Result<String, String> {
    let line = line(command);
    let output = command.output().map_err(|error| format!("cannot start `{line}`: {error}"))?;
    if output.status.success() {
        return String::from_utf8(output.stdout)
            .map_err(|_| format!("`{line}` prints text that is not UTF-8"));
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    Err(format!("`{line}` failed with {}: {messages}", output.status))
}

/// Returns `true` if a command succeeds. Its output is discarded.
pub(crate) fn succeeds(program: impl AsRef<OsStr>, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns the target directory of cargo.
pub(crate) fn target(root: &Path) -> PathBuf {
    // A relative path is relative to where cargo was called; here that is the root.
    root.join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// Formats the command as it would be typed, with its environment variables.
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
    fn shows_the_command_as_typed() {
        let mut command = cargo(Path::new("."), &["test", "--doc"]);
        command.env("RUSTFLAGS", "--cfg shuttle");
        assert_eq!(line(&command), "RUSTFLAGS=\"--cfg shuttle\" cargo test --doc");
    }

    #[test]
    fn cargo_does_not_inherit_the_description_of_this_package() {
        assert!(env::var_os("CARGO_PKG_NAME").is_some(), "set by cargo test");
        let command = cargo(Path::new("."), &["build"]);
        let removed = command.get_envs().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        assert!(removed.into_iter().any(|name| name == "CARGO_PKG_NAME"));
    }

    #[test]
    fn the_error_names_the_failing_program() {
        let reason = run(&mut cargo(Path::new("."), &["no-such-command"])).unwrap_err();
        assert!(reason.contains("cargo no-such-command"), "{reason}");
    }

    #[test]
    fn a_missing_program_does_not_succeed() {
        assert!(!succeeds("slidegate-no-such-program", &[]));
        assert!(succeeds("cargo", &["--version"]));
    }
}
