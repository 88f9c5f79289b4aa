//! What reading a configuration gives.

use core::fmt;
use std::path::PathBuf;

use super::report::{Diagnostic, Report, write_text};
use super::settings::Settings;
use super::source::Sources;
use super::yaml::Node;
use crate::spec::Spec;

/// A configuration without errors.
#[derive(Clone)]
pub struct Loaded {
    /// Settings of the process.
    pub settings: Settings,
    /// The limits, and where their state lives.
    pub spec: Spec,
    /// What works, and may hurt; and what is worth knowing.
    pub warnings: Vec<Diagnostic>,
    /// Every file that was read, the secrets' included: what to watch for changes. Of a directory,
    /// the directory too.
    pub files: Vec<PathBuf>,
    /// All values with their origins, for printing.
    pub(super) tree: Node,
    pub(super) sources: Sources,
}

/// A configuration with errors: nothing of it is used.
#[derive(Debug, Clone)]
pub struct Refused {
    /// All findings, errors first.
    pub findings: Vec<Diagnostic>,
    /// Every file that was read, or tried to be: what to watch for changes.
    pub files: Vec<PathBuf>,
}

impl fmt::Debug for Loaded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The texts that it was made from may hold passwords.
        f.debug_struct("Loaded")
            .field("settings", &self.settings)
            .field("spec", &self.spec)
            .field("warnings", &self.warnings)
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

impl Refused {
    pub(super) fn new(report: Report, files: Vec<PathBuf>) -> Self {
        Self { findings: report.into_findings(), files }
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.findings.iter().filter(|finding| finding.is_error()).count()
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::new();
        write_text(&mut text, &self.findings, false).map_err(|_| fmt::Error)?;
        f.write_str(String::from_utf8_lossy(&text).trim_end())
    }
}

impl core::error::Error for Refused {}
