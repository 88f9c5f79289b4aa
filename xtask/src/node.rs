//! `cargo xtask node`: builds and tests the npm package in `bindings/node`.

use std::env::consts::{DLL_PREFIX, DLL_SUFFIX};
use std::path::Path;
use std::process::Command;
use std::{fs, io};

use crate::Outcome;
use crate::command::{self, cargo};

/// Builds the native module and the TypeScript, and runs the package's tests.
///
/// The native module is built with the profile and the features of the tests, so that their
/// dependencies are not compiled again. Users get one of the release profile.
pub(crate) fn run(root: &Path) -> Outcome {
    if !command::succeeds("node", &["--version"]) || !command::succeeds("npm", &["--version"]) {
        return Err("the npm package is tested with Node.js: install node 20 or newer, and npm, \
                    for example with `apt-get install nodejs npm`"
            .to_owned());
    }
    let package = root.join("bindings/node");
    install(&package).map_err(|error| format!("cannot read package-lock.json: {error}"))??;
    command::run(&mut cargo(root, &["build", "--workspace", "--lib", "--examples"]))?;
    let library =
        command::target(root).join(format!("debug/{DLL_PREFIX}slidegate_node{DLL_SUFFIX}"));
    let mut build = Command::new("node");
    command::run(build.current_dir(&package).arg("scripts/build.mjs").arg(library))?;
    command::run(Command::new("npm").current_dir(&package).args(["run", "--silent", "test"]))
}

/// Installs what the lock file lists, if it has changed since the last time.
fn install(package: &Path) -> io::Result<Outcome> {
    let lock = fs::read(package.join("package-lock.json"))?;
    // Written after the installation, which may be interrupted.
    let installed = package.join("node_modules/.slidegate-lock.json");
    if fs::read(&installed).is_ok_and(|installed| installed == lock) {
        return Ok(Ok(()));
    }
    let mut npm = Command::new("npm");
    let ci =
        command::run(npm.current_dir(package).args(["ci", "--ignore-scripts", "--no-progress"]));
    if ci.is_ok() {
        fs::write(&installed, lock)?;
    }
    Ok(ci)
}
