//! What is wrong with a configuration, and where.

mod json;
mod mask;
mod place;
mod text;

pub use json::write_json;
pub(super) use mask::message as mask_address;
pub use place::Place;
pub use text::write_text;

use super::source::{Sources, Span};
use super::table::words;
use crate::nearest;

/// One finding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Whether the configuration may be used all the same.
    pub severity: Severity,
    /// A stable word for the kind of finding, such as `unknown-key`.
    pub code: &'static str,
    /// What is wrong, with the value.
    pub message: String,
    /// Where, unless it is about the whole.
    pub place: Option<Place>,
    /// What could stand there, or what to do.
    pub help: Option<String>,
    /// The nearest right word.
    pub did_you_mean: Option<String>,
    /// Another place that it is about, and why.
    pub related: Option<(Place, &'static str)>,
}

words! {
    /// How bad a finding is.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Severity {
        /// The configuration is not used.
        Error = "error",
        /// It is used, and may hurt.
        Warning = "warning",
        /// Worth knowing.
        Note = "note",
    }
}

/// More findings than this are only counted: the first ones explain the others.
const FINDINGS_MAX: usize = 100;

/// All findings about one configuration, with the texts that they are about.
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

    /// About a file that could not be read, or the whole.
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

    /// How many errors there were up to now: to tell whether a step found any.
    pub(super) fn errors(&self) -> usize {
        self.errors
    }

    /// The line of a span, counted from one.
    pub(super) fn line(&self, span: Span) -> usize {
        Place::new(&self.sources, span).map_or(0, |place| place.line)
    }

    /// Whether anything of this kind was found: some things are worth saying once.
    pub(super) fn has(&self, code: &str) -> bool {
        self.findings.iter().any(|finding| finding.code == code)
    }

    /// All findings, errors first.
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
        let mut finding = Diagnostic::general(severity, code, mask::shown(message));
        finding.place = span.and_then(|span| Place::new(&self.sources, span));
        if self.findings.len() >= FINDINGS_MAX || self.findings.contains(&finding) {
            self.left_out += usize::from(self.findings.len() >= FINDINGS_MAX);
            return Finding { finding: None, sources: &self.sources };
        }
        self.findings.push(finding);
        Finding { finding: self.findings.last_mut(), sources: &self.sources }
    }
}

/// A finding that can be said more about.
pub(crate) struct Finding<'a> {
    /// `None` if it is not reported.
    finding: Option<&'a mut Diagnostic>,
    sources: &'a Sources,
}

impl Finding<'_> {
    /// What could stand there, or what to do.
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        if let Some(finding) = &mut self.finding {
            finding.help = Some(mask::shown(&help.into()));
        }
        self
    }

    /// All that could stand there, and which of it was probably meant.
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

    /// Another place that it is about.
    pub(super) fn related(mut self, span: Span, why: &'static str) -> Self {
        if let Some(finding) = &mut self.finding {
            finding.related = Place::new(self.sources, span).map(|place| (place, why));
        }
        self
    }
}

impl Diagnostic {
    /// A finding about the whole.
    pub fn general(severity: Severity, code: &'static str, message: String) -> Self {
        Self { severity, code, message, place: None, help: None, did_you_mean: None, related: None }
    }

    /// Whether the configuration is not used because of it.
    pub fn is_error(&self) -> bool {
        self.severity == Severity::Error
    }
}
