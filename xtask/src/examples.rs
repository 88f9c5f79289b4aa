//! `cargo xtask examples`: what users copy must run.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::command::{self, cargo};

/// Packages with examples, and where these are.
const PACKAGES: &[(&str, &str)] = &[
    ("slidegate", "crates/core/examples"),
    ("slidegate-redis", "crates/redis/examples"),
    ("slidegate-tower", "crates/tower/examples"),
    ("slidegate-client", "crates/client/examples"),
];

/// Runs each example once.
pub(crate) fn run(root: &Path) -> Outcome {
    for (package, folder) in PACKAGES {
        let names = names(&root.join(folder))?;
        if names.is_empty() {
            return Err(format!("there is no example in {folder}"));
        }
        for name in &names {
            let arguments = ["run", "--quiet", "--package", package, "--example", name];
            command::run(&mut cargo(root, &arguments))?;
        }
    }
    Ok(())
}

/// The examples of a folder as cargo finds them: `name.rs` and `name/main.rs`, in order.
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
    fn a_missing_folder_is_an_error_not_zero_examples() {
        assert!(names(Path::new("no/such/folder")).is_err());
    }

    #[test]
    fn only_rust_files_are_examples() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let names = names(&sources).unwrap();
        assert!(names.contains(&"examples".to_owned()));
        // `tidy` is a folder without a `main.rs`.
        assert!(!names.contains(&"tidy".to_owned()));
    }
}
