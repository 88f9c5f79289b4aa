//! `cargo xtask release`: builds everything that a release publishes, and publishes it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, cargo};
use crate::debian::{self, Compression};
use crate::{Outcome, packages};

/// Builds all packages without publishing them.
pub(crate) fn dry_run(root: &Path) -> Outcome {
    let version = version(root)?;
    let names = crates(root)?;
    check_versions(root, &version)?;
    let mut package = cargo(root, &["package", "--locked", "--allow-dirty"]);
    command::run(package.args(names.iter().flat_map(|name| ["--package", name])))?;

    let mut build =
        cargo(root, &["build", "--release", "--locked", "--package", "slidegate-server"]);
    command::run(&mut build)?;
    let program = command::target(root).join("release/slidegate");
    let mut built = vec![archive(root, &program, &host()?)?];
    if command::succeeds("dpkg-deb", &["--version"]) {
        built.push(debian::build(root, &program, Compression::Best)?);
    } else {
        eprintln!("    no Debian package: dpkg-deb is not installed");
    }
    bindings(root)?;
    eprintln!(
        "\nrelease {version}: {} crates below target/package; an npm package, a wheel and these files below {}:",
        names.len(),
        folder(root)?.display()
    );
    for path in built {
        eprintln!("    {}", path.display());
    }
    eprintln!("To publish the crates: cargo xtask release");
    Ok(())
}

/// Publishes the crates, after a dry run. Credentials are those of `cargo login`.
///
/// The npm packages and the wheels contain programs for every platform: workflows build and publish them.
pub(crate) fn publish(root: &Path) -> Outcome {
    let version = version(root)?;
    let changes = fs::read_to_string(root.join("CHANGELOG.md"))
        .map_err(|error| format!("cannot read CHANGELOG.md: {error}"))?;
    if !changes.contains(&format!("## [{version}]")) {
        return Err(format!(
            "CHANGELOG.md has no section `## [{version}]`: move the changes there"
        ));
    }
    let mut git = Command::new("git");
    let status = command::output(git.current_dir(root).args(["status", "--porcelain"]))?;
    if !status.is_empty() {
        return Err(format!("commit these files first:\n{status}"));
    }
    dry_run(root)?;
    let names = crates(root)?;
    let mut publish = cargo(root, &["publish", "--locked"]);
    command::run(publish.args(names.iter().flat_map(|name| ["--package", name])))
}

/// Packs the npm package and the wheel of this platform.
fn bindings(root: &Path) -> Outcome {
    let node = root.join("bindings/node");
    command::run(&mut cargo(
        root,
        &["build", "--release", "--locked", "--package", "slidegate-node"],
    ))?;
    let npm = |arguments: &[&str]| {
        let mut npm = Command::new("npm");
        npm.current_dir(&node).args(arguments);
        npm
    };
    command::run(&mut npm(&["ci", "--ignore-scripts", "--no-progress"]))?;
    command::run(&mut npm(&["run", "--silent", "build"]))?;
    command::run(npm(&["run", "--silent", "pack:all", "--"]).arg(folder(root)?))?;
    let mut wheel = Command::new("python3");
    wheel.args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"]);
    command::run(wheel.arg(folder(root)?).arg(root.join("bindings/python")))
}

/// Packs a program with its manual pages, completions and texts. Returns the archive.
pub(crate) fn archive(root: &Path, program: &Path, target: &str) -> Result<PathBuf, String> {
    let name = format!("slidegate-{}-{target}", version(root)?);
    let above = fresh_folder(root, "archive")?;
    let tree = above.join(&name);
    Documents::write(root, program, &tree)?;
    copy(program, &tree.join("usr/bin/slidegate"))?;
    for file in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE", "SECURITY.md"] {
        copy(&root.join(file), &tree.join(file))?;
    }
    copy(&root.join("crates/server/examples/slidegate.yaml"), &tree.join("slidegate.yaml"))?;
    let archive = folder(root)?.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    command::run(tar.arg("-czf").arg(&archive).arg("-C").arg(&above).arg(&name))?;
    Ok(archive)
}

/// The manual pages and completions of the program, in the directories where programs look for them.
#[derive(Debug)]
pub(crate) struct Documents {
    pages: PathBuf,
}

impl Documents {
    /// Lets the program write them below `tree`.
    pub(crate) fn write(root: &Path, program: &Path, tree: &Path) -> Result<Self, String> {
        let program = root.join(program);
        let pages = tree.join("usr/share/man/man1");
        fs::create_dir_all(&pages).map_err(|error| failed("create", &pages, &error))?;
        command::run(Command::new(&program).arg("man").arg(&pages))?;
        for (shell, to) in [
            ("bash", "usr/share/bash-completion/completions/slidegate"),
            ("zsh", "usr/share/zsh/vendor-completions/_slidegate"),
            ("fish", "usr/share/fish/vendor_completions.d/slidegate.fish"),
        ] {
            let script = command::output(Command::new(&program).args(["completions", shell]))?;
            write(&tree.join(to), &script)?;
        }
        Ok(Self { pages })
    }

    /// Compresses the pages, as Debian requires. The result does not depend on the time.
    pub(crate) fn compress_pages(&self) -> Outcome {
        let entries =
            fs::read_dir(&self.pages).map_err(|error| failed("list", &self.pages, &error))?;
        let pages = entries.filter_map(|entry| Some(entry.ok()?.path()));
        command::run(Command::new("gzip").args(["-9", "-n"]).args(pages))
    }
}

/// Returns the version of the workspace.
pub(crate) fn version(root: &Path) -> Result<String, String> {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|error| format!("cannot read Cargo.toml: {error}"))?;
    let (_, section) = manifest
        .split_once("[workspace.package]")
        .ok_or("Cargo.toml has no [workspace.package]")?;
    let line =
        section.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"'));
    line.map(str::to_owned).ok_or_else(|| "the workspace has no version".to_owned())
}

/// Returns the names of the published crates.
fn crates(root: &Path) -> Result<Vec<String>, String> {
    let packages = packages::list(root)?;
    Ok(packages
        .into_iter()
        .filter(|package| package.is_published)
        .map(|package| package.name)
        .collect())
}

/// Checks that the crates depend on each other in the version that is released.
fn check_versions(root: &Path, version: &str) -> Outcome {
    let manifest = fs::read_to_string(root.join("Cargo.toml"))
        .map_err(|error| format!("cannot read Cargo.toml: {error}"))?;
    let wanted = format!("version = \"{version}\"");
    for name in crates(root)? {
        let line = manifest.lines().find(|line| line.starts_with(&format!("{name} = {{ path = ")));
        if !line.is_some_and(|line| line.contains(&wanted)) {
            return Err(format!("[workspace.dependencies] needs {name} with a path and {wanted}"));
        }
    }
    Ok(())
}

/// Returns the target triple of this machine.
fn host() -> Result<String, String> {
    let text = command::output(Command::new("rustc").arg("-vV"))?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "`rustc -vV` does not print the host".to_owned())
}

/// Returns the directory of the files of a release.
pub(crate) fn folder(root: &Path) -> Result<PathBuf, String> {
    let folder = command::target(root).join("release-files");
    fs::create_dir_all(&folder).map_err(|error| failed("create", &folder, &error))?;
    Ok(folder)
}

/// Returns an empty directory.
pub(crate) fn fresh_folder(root: &Path, name: &str) -> Result<PathBuf, String> {
    let folder = folder(root)?.join(name);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &folder, &error));
        }
        _ => {}
    }
    fs::create_dir_all(&folder).map_err(|error| failed("create", &folder, &error))?;
    Ok(folder)
}

/// Copies a file, and creates its directory.
pub(crate) fn copy(from: &Path, to: &Path) -> Outcome {
    create_parent(to)?;
    fs::copy(from, to).map(|_| ()).map_err(|error| failed("copy", from, &error))
}

/// Writes a file, and creates its directory.
pub(crate) fn write(path: &Path, text: &str) -> Outcome {
    create_parent(path)?;
    fs::write(path, text).map_err(|error| failed("write", path, &error))
}

fn create_parent(path: &Path) -> Outcome {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(|error| failed("create", folder, &error))
}

fn failed(what: &str, path: &Path, error: &io::Error) -> String {
    format!("cannot {what} {}: {error}", path.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_crates_are_released_in_one_version() {
        let root = crate::root();
        let version = version(&root).unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        check_versions(&root, &version).unwrap();
        assert!(check_versions(&root, "9.9.9").is_err());
    }

    #[test]
    fn every_published_crate_has_what_its_registry_shows() {
        let root = crate::root();
        let mut count = 0;
        for package in packages::list(&root).unwrap() {
            if !package.is_published {
                continue;
            }
            let folder = package.examples.parent().unwrap();
            let manifest = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let fields = [
                "description = ",
                "keywords = ",
                "categories = ",
                "readme = ",
                "license.workspace",
            ];
            for field in fields.iter().chain(&["rust-version", "[package.metadata.docs.rs]"]) {
                assert!(manifest.contains(field), "{} has no `{field}`", package.name);
            }
            let keywords = manifest.lines().find(|line| line.starts_with("keywords")).unwrap();
            assert!(keywords.matches('"').count() <= 10, "{keywords}: five are allowed");
            for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
                assert!(folder.join(file).is_file(), "{} has no {file}", package.name);
            }
            let front = fs::read_to_string(folder.join("src/lib.rs")).unwrap();
            let lines = front.lines().take_while(|line| line.starts_with("//!")).count();
            assert!(lines >= 9, "the front page of {} has {lines} lines", package.name);
            count += 1;
        }
        assert!(count >= 10, "{count}");
    }
}
