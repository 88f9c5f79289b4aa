//! The Python package: builds it, and runs its tests with real frameworks and servers.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use crate::command::{self, cargo};
use crate::{Outcome, install};

/// The pinned packages that the tests need.
const REQUIREMENTS: &str = "bindings/python/requirements.txt";

/// Builds the package and runs its tests.
pub(crate) fn run(root: &Path) -> Outcome {
    install::servers()?;
    let python = environment(root)?;
    // With the examples, the dependencies have the same features as in the tests, so that nothing
    // has to be compiled twice.
    command::run(&mut cargo(root, &["build", "--workspace", "--lib", "--examples"]))?;
    let site = assemble(root)?;
    let mut pytest = Command::new(python);
    pytest.current_dir(root.join("bindings/python")).args(["-m", "pytest"]);
    // Compiled files would be written next to the sources of the tests.
    pytest.env("PYTHONPATH", site).env("PYTHONDONTWRITEBYTECODE", "1");
    command::run(&mut pytest)
}

/// Returns the interpreter of a virtual environment below the target directory that has the pinned
/// packages.
fn environment(root: &Path) -> Result<PathBuf, String> {
    install::python_venv()?;
    let folder = command::target(root).join("tools/python");
    let python = folder.join("bin/python");
    let wanted = fs::read_to_string(root.join(REQUIREMENTS))
        .map_err(|error| format!("cannot read {REQUIREMENTS}: {error}"))?;
    // Written after the installation, which may be interrupted.
    let complete = folder.join("requirements.txt");
    if fs::read_to_string(&complete).is_ok_and(|present| present == wanted) {
        return Ok(python);
    }
    eprintln!("    installing {REQUIREMENTS} into {}", folder.display());
    command::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))?;
    let mut pip = Command::new(&python);
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    pip.args(["--only-binary", ":all:", "--requirement"]).arg(root.join(REQUIREMENTS));
    command::run(&mut pip)?;
    fs::write(&complete, wanted)
        .map_err(|error| format!("cannot write {}: {error}", complete.display()))?;
    Ok(python)
}

/// Puts the Python files and the native module together, as in a wheel. Returns the directory for
/// `PYTHONPATH`.
fn assemble(root: &Path) -> Result<PathBuf, String> {
    let site = command::target(root).join("python");
    let package = site.join("slidegate");
    let failed = |error| format!("cannot write {}: {error}", package.display());
    if package.exists() {
        fs::remove_dir_all(&package).map_err(failed)?;
    }
    copy_files(&root.join("bindings/python/python/slidegate"), &package).map_err(failed)?;
    let built = env::current_exe().map_err(|error| format!("cannot find xtask: {error}"))?;
    let built = built.with_file_name(format!(
        "{}slidegate_python{}",
        env::consts::DLL_PREFIX,
        env::consts::DLL_SUFFIX
    ));
    let module = if cfg!(windows) { "_native.pyd" } else { "_native.abi3.so" };
    fs::copy(&built, package.join(module))
        .map_err(|error| format!("cannot copy {}: {error}", built.display()))?;
    Ok(site)
}

/// Copies the files of a directory without its subdirectories.
fn copy_files(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_files_and_no_directories() {
        let to = env::temp_dir().join(format!("slidegate-xtask-{}", std::process::id()));
        let tidy = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        copy_files(&tidy, &to).unwrap();
        assert!(to.join("python.rs").is_file());
        assert!(!to.join("tidy").exists());
        fs::remove_dir_all(&to).unwrap();
    }
}
