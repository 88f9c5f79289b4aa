//! Errors and warnings about a configuration, with their places.

mod json;
mod mask;
mod place;
mod text;

pub use json::write_json;
pub(crate) use mask::message as mask_address;
pub use place::Place;
pub use text::write_text;

use super::source::{Sources, Span};
use super::table::keywords;
use crate::nearest;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the configuration can still be used.
    pub severity: Severity,
    /// A stable word for the kind of finding, such as `unknown-key`.
    pub code: &'static str,
    /// What is wrong, with the value.
    pub message: String,
    /// The place, unless the finding is about the whole configuration.
    pub place: Option<Place>,
    /// The allowed values, or the fix.
    pub help: Option<String>,
    /// The most similar valid word.
    pub did_you_mean: Option<String>,
    /// Another place that the finding refers to, and why.
    pub related: Option<(Place, &'static str)>,
}

keywords! {
    /// The severity of a finding.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity {
        /// The configuration is not used.
        Error = "error",
        /// The configuration is used, but may be unintended.
        Warning = "warning",
        /// Information.
        Note = "note",
    }
}

/// Further findings are only counted, because the first ones usually explain them.
const FINDINGS_MAX: usize = 100;

/// All findings about one configuration, with their sources.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(super) sources: Sources,
    findings: Vec<Diagnostic>,
    errors: usize,
    left_out: usize,
}

impl Report {
    pub(crate) fn error(
        &mut self,
        span: Span,
        code: &'static str,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.push(Severity::Error, Some(span), code, &message.into())
    }

    pub(crate) fn warning(
        &mut self,
        span: Span,
        code: &'static str,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.push(Severity::Warning, Some(span), code, &message.into())
    }

    pub(super) fn note(
        &mut self,
        span: Span,
        code: &'static str,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.push(Severity::Note, Some(span), code, &message.into())
    }

    /// Reports a finding about a file that could not be read, or about the whole configuration.
    pub(super) fn general(
        &mut self,
        severity: Severity,
        code: &'static str,
        message: impl Into<String>,
    ) -> Finding<'_> {
        self.push(severity, None, code, &message.into())
    }

    pub(super) fn has_errors(&self) -> bool {
        self.errors > 0
    }

    /// Returns the number of errors so far.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// Returns the line of a span, counted from one.
    pub(super) fn line(&self, span: Span) -> usize {
        Place::new(&self.sources, span).map_or(0, |place| place.line)
    }

    /// Returns `true` if there is a finding with this code.
    pub(super) fn has(&self, code: &str) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    /// Returns all findings, errors first.
    pub(super) fn into_findings(mut self) -> Vec<Diagnostic> {
        self.findings.sort_by_key(|finding| finding.severity);
        if self.left_out > 0 {
            let message = format!("and {} more", self.left_out);
            self.findings.push(Diagnostic::general(Severity::Note, "more", message));
        }
        self.findings
    }

    fn push(
        &mut self,
        severity: Severity,
        span: Option<Span>,
        code: &'static str,
        message: &str,
    ) -> Finding<'_> {
        self.errors += usize::from(severity == Severity::Error);
        if self.findings.len() >= FINDINGS_MAX {
            self.left_out += 1;
            return Finding { finding: None, sources: &self.sources };
        }
        let shown = mask::shown(message, self.sources.secrets());
        let mut finding = Diagnostic::general(severity, code, shown);
        finding.place = span.and_then(|span| Place::new(&self.sources, span));
        if self.findings.contains(&finding) {
            return Finding { finding: None, sources: &self.sources };
        }
        self.findings.push(finding);
        Finding { finding: self.findings.last_mut(), sources: &self.sources }
    }
}

/// A finding to which details can be added.
pub(crate) struct Finding<'a> {
    /// `None` if it is not reported.
    finding: Option<&'a mut Diagnostic>,
    sources: &'a Sources,
}

impl Finding<'_> {
    /// Sets the allowed values, or the fix.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        if let Some(finding) = &mut self.finding {
            finding.help = Some(mask::shown(&help.into(), self.sources.secrets()));
        }
        self
    }

    /// Sets all allowed values, and suggests the most similar one.
    pub(crate) fn choices<'b>(
        self,
        word: &str,
        choices: impl IntoIterator<Item = &'b str>,
    ) -> Self {
        let mut choices: Vec<&str> = choices.into_iter().collect();
        choices.dedup();
        let near = nearest(word, choices.iter().copied()).map(str::to_owned);
        let help = match choices.as_slice() {
            [] => "there is none".to_owned(),
            choices => format!("allowed: {}", choices.join(", ")),
        };
        let mut finding = self.help(help);
        if let Some(finding) = &mut finding.finding {
            finding.did_you_mean = near;
        }
        finding
    }

    /// Sets another place that the finding refers to.
    pub(super) fn related(mut self, span: Span, why: &'static str) -> Self {
        if let Some(finding) = &mut self.finding {
            finding.related = Place::new(self.sources, span).map(|place| (place, why));
        }
        self
    }
}

impl Diagnostic {
    /// Creates a finding about the whole configuration.
    pub fn general(severity: Severity, code: &'static str, message: String) -> Self {
        Self { severity, code, message, place: None, help: None, did_you_mean: None, related: None }
    }

    /// Returns `true` if the configuration is not used because of this finding.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
