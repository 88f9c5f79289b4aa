//! The origin of values: files, environment variables, flags, and places in them.

use std::path::PathBuf;

/// A part of a source, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Span {
    pub(super) source: u32,
    pub(super) start: u32,
    pub(super) end: u32,
}

/// The origin of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A file.
    File(PathBuf),
    /// An environment variable, by its name.
    Environment(String),
    /// A flag of the command line, by its name.
    Flag(String),
}

/// A text with an origin.
#[derive(Debug, Clone)]
pub(super) struct Source {
    pub(super) origin: Origin,
    pub(super) text: String,
    /// The start of each line.
    lines: Vec<usize>,
}

/// All texts of one configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
}

impl Span {
    /// The span of a value without a place, such as a default.
    pub(super) const NOWHERE: Self = Self { source: u32::MAX, start: 0, end: 0 };

    /// Returns an empty span at the start.
    pub(super) fn at_start(self) -> Self {
        Self { end: self.start, ..self }
    }
}

impl Origin {
    /// Returns the path as it was given, or the name.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => path.display().to_string(),
            Self::Environment(name) | Self::Flag(name) => name.clone(),
        }
    }
}

impl Source {
    fn new(origin: Origin, text: String) -> Self {
        let ends = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n');
        let lines = core::iter::once(0).chain(ends.map(|(at, _)| at + 1)).collect();
        Self { origin, text, lines }
    }

    /// Returns the line of a position and the bytes before it on that line, both counted from zero.
    pub(super) fn locate(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at).saturating_sub(1);
        (line, at - self.lines.get(line).copied().unwrap_or(0))
    }

    /// Returns a line without its line break.
    pub(super) fn line(&self, line: usize) -> &str {
        let start = self.lines.get(line).copied().unwrap_or(self.text.len());
        let end = self.lines.get(line + 1).copied().unwrap_or(self.text.len());
        self.text.get(start..end).unwrap_or_default().trim_end_matches(['\n', '\r'])
    }
}

impl Sources {
    /// Adds a text, and returns its span. The text is shorter than 4 GiB: files are bounded, and no
    /// system has longer variables.
    pub(super) fn add(&mut self, origin: Origin, text: String) -> Span {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        let span = Span { source: number(self.list.len()), start: 0, end: number(text.len()) };
        self.list.push(Source::new(origin, text));
        span
    }

    /// Adds `NAME=value`, and returns the span of the value.
    pub(super) fn add_pair(&mut self, origin: Origin, value: &str) -> Span {
        let name = origin.name();
        let span = self.add(origin, format!("{name}={value}"));
        Span { start: u32::try_from(name.len() + 1).unwrap_or(u32::MAX).min(span.end), ..span }
    }

    pub(super) fn get(&self, span: Span) -> Option<&Source> {
        self.list.get(span.source as usize)
    }
}
