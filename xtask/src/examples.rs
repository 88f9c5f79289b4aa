//! `cargo xtask examples`: runs the examples, because users copy them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::command::{self, cargo};
use crate::{Outcome, packages};

/// Runs each example once: those of the crates, then the programs in `examples/` with their tests.
///
/// One command builds all of them for the whole workspace, with the same features as the tests, so
/// that nothing has to be compiled after the tests. `cargo run --package` would select the features
/// of one package and compile most dependencies again for each.
pub(crate) fn run(root: &Path) -> Outcome {
    command::run(&mut cargo(root, &["build", "--workspace", "--examples"]))?;
    let built = built()?;
    let mut count = 0;
    for package in packages::list(root)? {
        if !package.examples.is_dir() {
            continue;
        }
        for name in names(&package.examples)? {
            command::run(Command::new(built.join(name)).current_dir(root))?;
            count += 1;
        }
    }
    if count == 0 {
        return Err("found no examples".to_owned());
    }
    // The tests of the daemon run the files of Envoy and nginx.
    for (test, filter) in [("examples", ""), ("daemon", "deploy::"), ("protocols", "as_documented")]
    {
        command::run(&mut cargo(root, &["test", "--workspace", "--test", test, filter]))?;
    }
    Ok(())
}

/// Returns the directory of the built examples, which is next to this program.
fn built() -> Result<PathBuf, String> {
    let program = env::current_exe().map_err(|error| format!("cannot find xtask: {error}"))?;
    Ok(program.with_file_name("examples"))
}

/// Returns the names of the examples in a directory, sorted: `name.rs` and `name/main.rs`.
fn names(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |error| format!("cannot list {}: {error}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let is_file = path.extension().is_some_and(|extension| extension == "rs");
        if is_file || path.join("main.rs").is_file() {
            names.extend(path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_directory_is_an_error() {
        assert!(names(Path::new("no/such/folder")).is_err());
    }

    #[test]
    fn only_rust_files_are_examples() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let names = names(&sources).unwrap();
        assert!(names.contains(&"examples".to_owned()));
        // `tidy` is a directory without a `main.rs`.
        assert!(!names.contains(&"tidy".to_owned()));
    }
}
