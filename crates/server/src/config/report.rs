//! What is wrong with a configuration, and where.

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether it may be used all the same.
    pub severity: Severity,
    /// A stable word for the kind of finding, such as `unknown-key`.
    pub code: &'static str,
    /// What is wrong, with the value.
    pub message: String,
}

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// The configuration is not used.
    Error,
    /// It is used, and may hurt.
    Warning,
    /// Worth knowing.
    Note,
}
