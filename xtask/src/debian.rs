//! Builds a Debian package of the daemon with `dpkg-deb`, and checks it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::release::{self, Documents};
use crate::{Outcome, command};

/// How much the package is compressed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Compression {
    /// As Debian does.
    Best,
    /// Not at all, for a check.
    None,
}

/// Reloads systemd's units, and restarts the daemon if it runs. It is not enabled: the limits have to be
/// written first.
const AFTER_INSTALLATION: &str = "#!/bin/sh
set -e
if [ \"$1\" = configure ] && [ -d /run/systemd/system ]; then
    systemctl daemon-reload
    systemctl try-restart slidegate.service
fi
";

const BEFORE_REMOVAL: &str = "#!/bin/sh
set -e
if [ \"$1\" = remove ] && [ -d /run/systemd/system ]; then
    systemctl disable --now slidegate.service
fi
";

const AFTER_REMOVAL: &str = "#!/bin/sh
set -e
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload
fi
";

/// Builds the package of a program, checks it, and returns its path.
pub(crate) fn build(
    root: &Path,
    program: &Path,
    compression: Compression,
) -> Result<PathBuf, String> {
    let tree = release::fresh_folder(root, "debian")?;
    let program = stripped(root, program)?;
    fill(root, &tree, &program)?;
    let version = release::version(root)?;
    let architecture = command::output(Command::new("dpkg").arg("--print-architecture"))?;
    let name = format!("slidegate_{version}-1_{}.deb", architecture.trim());
    let package = release::folder(root)?.join(name);
    let mut build = Command::new("dpkg-deb");
    match compression {
        Compression::Best => build.arg("-Zxz"),
        Compression::None => build.arg("-Znone"),
    };
    command::run(build.args(["--root-owner-group", "--build"]).arg(&tree).arg(&package))?;
    check(root, &package)?;
    Ok(package)
}

/// Writes all files of the package below a directory.
fn fill(root: &Path, tree: &Path, program: &Path) -> Outcome {
    let documents = Documents::write(root, program, tree)?;
    documents.compress_pages()?;
    let from = |name: &str| root.join(name);
    for (source, to, mode) in [
        (program.to_owned(), "usr/bin/slidegate", 0o755),
        (
            from("deploy/systemd/slidegate.service"),
            "usr/lib/systemd/system/slidegate.service",
            0o644,
        ),
        // Readable by all, because the service runs as a dynamic user. Secrets belong in other files.
        (from("deploy/systemd/limits.yaml"), "etc/slidegate/limits.yaml", 0o644),
        (
            from("crates/server/examples/slidegate.yaml"),
            "usr/share/doc/slidegate/examples/slidegate.yaml",
            0o644,
        ),
        (
            from("deploy/prometheus/alerts.yaml"),
            "usr/share/doc/slidegate/examples/alerts.yaml",
            0o644,
        ),
        (from("README.md"), "usr/share/doc/slidegate/README.md", 0o644),
        (from("CHANGELOG.md"), "usr/share/doc/slidegate/CHANGELOG.md", 0o644),
    ] {
        let to = tree.join(to);
        release::copy(&source, &to)?;
        set_mode(&to, mode)?;
    }
    let license = |name: &str| {
        fs::read_to_string(from(name)).map_err(|error| format!("cannot read {name}: {error}"))
    };
    let licenses = format!("{}\n{}", license("LICENSE-MIT")?, license("LICENSE-APACHE")?);
    release::write(&tree.join("usr/share/doc/slidegate/copyright"), &licenses)?;
    let control = control(root, program)?;
    for (name, text, mode) in [
        ("control", control.as_str(), 0o644),
        ("conffiles", "/etc/slidegate/limits.yaml\n", 0o644),
        ("postinst", AFTER_INSTALLATION, 0o755),
        ("prerm", BEFORE_REMOVAL, 0o755),
        ("postrm", AFTER_REMOVAL, 0o755),
    ] {
        let path = tree.join("DEBIAN").join(name);
        release::write(&path, text)?;
        set_mode(&path, mode)?;
    }
    Ok(())
}

fn control(root: &Path, program: &Path) -> Result<String, String> {
    let version = release::version(root)?;
    let architecture = command::output(Command::new("dpkg").arg("--print-architecture"))?;
    let bytes =
        fs::read(program).map_err(|error| format!("cannot read {}: {error}", program.display()))?;
    let libc = newest_libc(&bytes).ok_or("the program does not name a version of glibc")?;
    let (architecture, kibibytes) = (architecture.trim(), bytes.len() / 1024);
    Ok(format!(
        "Package: slidegate
Version: {version}-1
Architecture: {architecture}
Maintainer: The Slidegate authors <slidegate@localhost>
Installed-Size: {kibibytes}
Depends: libc6 (>= 2.{libc}), libgcc-s1
Recommends: ca-certificates
Suggests: redis-server
Section: net
Priority: optional
Description: sliding-window rate limiter as a service
 Decides whether requests are within their limits: over Envoy's rate limit
 protocol, as forward auth for nginx, Caddy and Traefik, over an HTTP API and
 over the Redis protocol. State lives in memory or in Redis.
"
    ))
}

/// Returns the newest minor version of glibc 2 that the symbols of a program need.
fn newest_libc(program: &[u8]) -> Option<u32> {
    let name = b"GLIBC_2.";
    let versions = program.windows(name.len()).enumerate().filter(|(_, window)| window == name);
    let minor = |(at, _): (usize, &[u8])| {
        let rest = program.get(at + name.len()..)?;
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        std::str::from_utf8(&rest[..digits]).ok()?.parse::<u32>().ok()
    };
    versions.filter_map(minor).max()
}

/// Returns a copy of the program without symbols.
fn stripped(root: &Path, program: &Path) -> Result<PathBuf, String> {
    let copy = release::folder(root)?.join("slidegate");
    command::run(Command::new("strip").arg("-o").arg(&copy).arg(program))?;
    Ok(copy)
}

/// Unpacks the package, and runs what is in it.
fn check(root: &Path, package: &Path) -> Outcome {
    let tree = release::fresh_folder(root, "unpacked")?;
    command::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&tree))?;
    let program = tree.join("usr/bin/slidegate");
    let version = command::output(Command::new(&program).arg("-V"))?;
    let expected = format!("slidegate {}", release::version(root)?);
    if version.trim() != expected {
        return Err(format!("the package contains `{}` instead of `{expected}`", version.trim()));
    }
    let limits = tree.join("etc/slidegate/limits.yaml");
    command::run(Command::new(&program).args(["config", "check"]).arg(limits))?;
    let wanted = [
        "usr/share/man/man1/slidegate.1.gz",
        "usr/share/man/man1/slidegate-serve.1.gz",
        "usr/share/bash-completion/completions/slidegate",
        "usr/share/zsh/vendor-completions/_slidegate",
        "usr/share/fish/vendor_completions.d/slidegate.fish",
        "usr/lib/systemd/system/slidegate.service",
        "usr/share/doc/slidegate/copyright",
    ];
    let missing: BTreeSet<_> = wanted.iter().filter(|name| !tree.join(name).is_file()).collect();
    if !missing.is_empty() {
        return Err(format!("the package does not contain {missing:?}"));
    }
    // The completion is a script that bash accepts, and the scripts of the package are ones of sh.
    command::run(Command::new("bash").arg("-n").arg(tree.join(wanted[2])))?;
    for script in [AFTER_INSTALLATION, BEFORE_REMOVAL, AFTER_REMOVAL] {
        command::run(Command::new("sh").args(["-n", "-c", script]))?;
    }
    Ok(())
}

fn set_mode(path: &Path, mode: u32) -> Outcome {
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(|error| format!("cannot change the mode of {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_glibc_are_compared_as_numbers() {
        assert_eq!(newest_libc(b"\0GLIBC_2.2.5\0GLIBC_2.34\0GLIBC_2.9\0"), Some(34));
        assert_eq!(newest_libc(b"\0GLIBC_PRIVATE\0"), None);
    }
}
