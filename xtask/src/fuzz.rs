//! `cargo xtask fuzz`: runs the fuzz targets.

use std::fs;
use std::path::Path;

use crate::Outcome;
use crate::command::{self, cargo};

/// How long each target runs by default.
pub(crate) const SECONDS: u32 = 60;

const MISSING: &str = "needs a nightly toolchain and cargo-fuzz: \
    `rustup toolchain install nightly` and `cargo install cargo-fuzz --locked`";

/// Runs each target of `fuzz/` for `seconds` seconds.
pub(crate) fn run(root: &Path, seconds: u32) -> Outcome {
    if !command::succeeds("cargo", &["+nightly", "fuzz", "--version"]) {
        return Err(MISSING.to_owned());
    }
    let time = format!("-max_total_time={seconds}");
    for target in targets(root)? {
        // There is no unsafe code for a sanitizer to check, and without one the fuzzer tries more
        // inputs in the same time.
        let arguments = ["+nightly", "fuzz", "run", "--sanitizer", "none", &target, "--", &time];
        command::run(&mut cargo(root, &arguments))?;
    }
    Ok(())
}

/// Parses a number of seconds. Zero is rejected: the fuzzer would never stop.
pub(crate) fn parse_seconds(word: &str) -> Result<u32, String> {
    match word.parse() {
        Ok(seconds) if seconds > 0 => Ok(seconds),
        _ => Err(format!("`{word}` is not a number of seconds: use 1 or more")),
    }
}

/// Returns the target names in the manifest of `fuzz/`, in its order.
fn targets(root: &Path) -> Result<Vec<String>, String> {
    let path = root.join("fuzz/Cargo.toml");
    let manifest = fs::read_to_string(&path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    Ok(target_names(&manifest))
}

fn target_names(manifest: &str) -> Vec<String> {
    let bins = manifest.split("[[bin]]").skip(1);
    let name = |bin: &str| {
        let value = bin.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(value.trim_matches('"').to_owned())
    };
    bins.filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_must_be_positive() {
        assert_eq!(parse_seconds("5"), Ok(5));
        assert!(parse_seconds("0").is_err());
        assert!(parse_seconds("-1").is_err());
        assert!(parse_seconds("soon").is_err());
    }

    #[test]
    fn the_package_is_not_a_target() {
        let manifest = "[package]\nname = \"fuzz\"\n\n[[bin]]\nname = \"one\"\npath = \"x\"\n\n\
            [[bin]]\nname = \"two\"\n";
        assert_eq!(target_names(manifest), ["one", "two"]);
    }

    #[test]
    fn every_target_file_is_in_the_manifest() {
        let root = crate::root();
        let targets = targets(&root).unwrap();
        let files = fs::read_dir(root.join("fuzz/fuzz_targets")).unwrap();
        let mut count = 0;
        for file in files {
            let stem = file.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned();
            assert!(targets.contains(&stem), "{stem} is in no [[bin]]");
            count += 1;
        }
        assert_eq!(count, targets.len());
    }
}
