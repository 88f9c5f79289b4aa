//! The files of this folder, and the findings when they are loaded.

use std::path::PathBuf;

use slidegate_server::config::report::{Diagnostic, write_text};
use slidegate_server::config::{InvalidConfig, Loaded, Request, load};

/// Returns the path of a file in `files`.
pub(crate) fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/config/files").join(name)
}

/// What the file has when nothing is wrong with it.
#[track_caller]
pub(crate) fn good(name: &str) -> Loaded {
    load(&Request::new([path(name)])).unwrap_or_else(|refused| panic!("{name}:\n{refused}"))
}

/// What is wrong with a file.
#[track_caller]
pub(crate) fn bad(name: &str) -> InvalidConfig {
    *load(&Request::new([path(name)])).expect_err(name)
}

/// Returns the codes of findings, in the order of the report.
pub(crate) fn codes(findings: &[Diagnostic]) -> Vec<&'static str> {
    findings.iter().map(|finding| finding.code).collect()
}

/// Findings as people see them, with the folder of this file left out.
pub(crate) fn shown(findings: &[Diagnostic]) -> String {
    let mut text = Vec::new();
    write_text(&mut text, findings, false).unwrap();
    let text = String::from_utf8(text).unwrap();
    text.replace(&format!("{}/", path("").display()).replace("//", "/"), "")
}
