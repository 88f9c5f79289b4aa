//! Installs what is missing on a fresh machine.
//!
//! Every function looks first, so calling it twice installs once, and says what it does before it
//! does it. Nothing here is needed to build the library.

use std::process::Command;

use crate::{Outcome, command};

/// Makes sure that a component of the toolchain is there, `cargo SUBCOMMAND` being its proof.
pub(crate) fn component(name: &str, subcommand: &str) -> Outcome {
    if command::succeeds("cargo", &[subcommand, "--version"]) {
        return Ok(());
    }
    if !command::succeeds("rustup", &["--version"]) {
        return Err(format!(
            "`cargo {subcommand}` is missing: install the {name} of your toolchain"
        ));
    }
    eprintln!("    {name} is missing: adding it to the toolchain by rustup");
    command::run(Command::new("rustup").args(["component", "add", name]))
}

/// Makes sure that valgrind is there, if that can be done; answers whether it is.
pub(crate) fn valgrind() -> bool {
    program("valgrind", "--version", "valgrind", "to compare instruction counts")
}

/// Makes sure that the proxies are there that services are tested behind, if that can be done. The
/// tests say what is missing otherwise.
pub(crate) fn proxies() {
    program("/usr/sbin/nginx", "-v", "nginx-light", "to test behind it");
    program("/usr/sbin/haproxy", "-v", "haproxy", "to test behind it");
}

/// Makes sure that a program is there, its version being the proof; answers whether it is.
fn program(name: &str, version: &str, package: &str, what_for: &str) -> bool {
    let is_there = || command::succeeds(name, &[version]);
    if is_there() {
        return true;
    }
    if !is_root() || !command::succeeds("apt-get", &["--version"]) {
        eprintln!("    {name} is missing: install {package} {what_for}");
        return false;
    }
    eprintln!("    {name} is missing: installing the Debian package by apt-get");
    // Where the lists cannot be updated, those at hand may still do.
    for arguments in [&["update"][..], &["install", package]] {
        if let Err(reason) = apt_get(arguments) {
            eprintln!("    {reason}");
        }
    }
    is_there()
}

fn apt_get(arguments: &[&str]) -> Outcome {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["--quiet", "--yes", "--no-install-recommends"]).args(arguments);
    command::run(&mut command)
}

fn is_root() -> bool {
    let output = Command::new("id").arg("-u").output();
    output.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed_again() {
        // A name that rustup does not know: asking it would fail, so passing shows it was not asked.
        assert_eq!(component("no-such-component", "fmt"), Ok(()));
    }
}
