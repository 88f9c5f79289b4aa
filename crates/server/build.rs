//! Passes facts about the build to `slidegate --version`.

use std::path::Path;
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SLIDEGATE_COMMIT");
    let commit = commit().map_or_else(String::new, |commit| format!(" ({commit})"));
    // Cargo also sets these variables for `cargo run`. The daemon warns of unknown variables that start
    // with its own prefix.
    println!("cargo::rustc-env=BUILD_COMMIT={commit}");
    println!("cargo::rustc-env=BUILD_FEATURES={}", features());
    let compiler = env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned());
    let rustc = output(&compiler, &["--version"]).unwrap_or_else(|| "rustc".to_owned());
    println!("cargo::rustc-env=BUILD_RUSTC={rustc}");
    let target = env::var("TARGET").unwrap_or_default();
    println!("cargo::rustc-env=BUILD_TARGET={target}");
}

/// Returns the commit that is built: from the variable, from a published package, or from git.
///
/// Debug builds do not call git, because each commit would then compile the daemon again.
fn commit() -> Option<String> {
    if let Ok(commit) = env::var("SLIDEGATE_COMMIT") {
        return Some(commit).filter(|commit| !commit.is_empty());
    }
    if let Ok(text) = fs::read_to_string(".cargo_vcs_info.json") {
        let (_, after) = text.split_once("\"sha1\": \"")?;
        return after.get(..12).map(str::to_owned);
    }
    // Without this check, a package in a directory below another repository would report its commit.
    if env::var("PROFILE").as_deref() != Ok("release") || !Path::new("../../.git").exists() {
        return None;
    }
    // Git appends a line to this file when a commit is made or checked out.
    let log = output("git", &["rev-parse", "--git-path", "logs/HEAD"])?;
    println!("cargo::rerun-if-changed={log}");
    output("git", &["rev-parse", "--short=12", "HEAD"])
}

/// Returns the features of this crate that are enabled, sorted.
fn features() -> String {
    let mut names: Vec<String> = env::vars()
        .filter_map(|(name, _)| Some(name.strip_prefix("CARGO_FEATURE_")?.to_lowercase()))
        .filter(|name| name != "default")
        .collect();
    names.sort();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

/// Returns what a program prints, without the line end, or `None` if it fails.
fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
