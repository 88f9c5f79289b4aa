//! The place of a finding, with its line.

use super::mask;
use crate::config::source::{Origin, Sources, Span};

/// The maximum number of characters of a line that are shown.
const SHOWN_MAX: usize = 120;

/// A part of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The origin of the value.
    pub origin: Origin,
    /// Counted from one.
    pub line: usize,
    /// In characters, counted from one.
    pub column: usize,
    /// The column after the end of the part on this line.
    pub end_column: usize,
    /// The line, or the part of it around the value, with masked secrets.
    pub excerpt: String,
    /// Characters of the excerpt before the part.
    pub indent: usize,
}

impl Place {
    pub(in crate::config) fn new(sources: &Sources, span: Span) -> Option<Self> {
        let source = sources.get(span)?;
        let (line, before) = source.locate(span.start as usize);
        let whole = source.line(line);
        // Text beyond the line is not shown, and a span never splits a character.
        let length = (span.end.saturating_sub(span.start)) as usize;
        let start = floor(whole, before);
        let end = floor(whole, before + length).max(start);
        let column = whole[..start].chars().count();
        let width = whole[start..end].trim_end().chars().count();
        let shown = source.masked_line(line, mask::star);
        let skipped = (column + width.min(SHOWN_MAX / 2)).saturating_sub(SHOWN_MAX);
        let excerpt: String =
            shown.chars().skip(skipped).take(SHOWN_MAX).map(mask::visible).collect();
        let excerpt = mask::without(&excerpt, sources.secrets());
        Some(Self {
            origin: source.origin.clone(),
            line: line + 1,
            column: column + 1,
            end_column: column + width.max(1) + 1,
            excerpt,
            indent: column - skipped.min(column),
        })
    }

    /// Returns the number of characters to underline: at least one, and none beyond the excerpt.
    pub fn width(&self) -> usize {
        let shown = self.excerpt.chars().count().saturating_sub(self.indent);
        (self.end_column - self.column).min(shown).max(1)
    }
}

/// Returns the last character boundary that is not after `at`.
fn floor(text: &str, at: usize) -> usize {
    let mut at = at.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
