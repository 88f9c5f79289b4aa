//! What reading a configuration gives.

use std::path::PathBuf;

use super::report::Diagnostic;
use super::settings::Settings;
use crate::spec::Spec;

/// A configuration without errors.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// Settings of the process.
    pub settings: Settings,
    /// The limits, and where their state lives.
    pub spec: Spec,
    /// What works, and may hurt.
    pub warnings: Vec<Diagnostic>,
    /// Every file that was read, the secrets' included: what to watch for changes.
    pub files: Vec<PathBuf>,
}
