//! Output that cannot be written: a reader that has stopped, a full disk, a folder that does not exist.

use std::fs::File;
use std::process::{Command, Output, Stdio};

/// Runs a command with `stdout` as its standard output.
fn run(arguments: &[&str], stdout: impl Into<Stdio>) -> (Output, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_slidegate"));
    let command = command.env_clear().args(arguments).stdin(Stdio::null()).stderr(Stdio::piped());
    let output = command.stdout(stdout).spawn().unwrap().wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr.clone()).unwrap();
    (output, said)
}

const SIMULATE: &[&str] = &["simulate", "--traffic", "steady:requests=10", "--quota", "5/s"];

#[test]
fn a_reader_that_stops_early_is_not_an_error() {
    for arguments in [
        SIMULATE,
        &["completions", "bash"],
        &["man"],
        &["serve", "--print-config"],
        &["serve", "--print-config", "--json"],
        &["config", "schema"],
        &["plan", "--keys", "1000", "--rate", "10/minute"],
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (output, said) = run(arguments, writer);
        assert_eq!((output.status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn output_that_cannot_be_written_is_an_error_with_the_reason() {
    let mut json = SIMULATE.to_vec();
    json.push("--json");
    for arguments in [
        &json,
        SIMULATE,
        &["completions", "bash"],
        &["man"],
        &["serve", "--print-config"],
        &["config", "schema"],
        &["plan", "--keys", "1000", "--rate", "10/minute"],
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (output, said) = run(arguments, full);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("standard output") && said.contains("space"),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_report_of_bench_that_cannot_be_saved_is_refused_before_measuring() {
    // Nothing listens there, so measuring would end with 69.
    let path = std::env::temp_dir().join("slidegate-no-such-folder").join("report.html");
    let path = path.to_str().unwrap();
    let target = ["bench", "http://127.0.0.1:1", "--policy", "api", "--html", path];
    let (output, said) = run(&target, Stdio::piped());
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(path), "{said}");
}
