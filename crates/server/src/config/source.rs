//! The origin of values: files, environment variables, flags, and places in them.

use core::ops::Range;
use std::collections::BTreeSet;
use std::path::PathBuf;

use super::secrets;
use super::yaml::Node;

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
    /// The parts with secrets, which are not shown.
    hidden: Vec<Range<usize>>,
}

/// All texts of one configuration.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources {
    list: Vec<Source>,
    /// Secrets that messages may quote.
    secrets: BTreeSet<String>,
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
        Self { origin, text, lines, hidden: Vec::new() }
    }

    /// Returns the line of a position and the bytes before it on that line, both counted from zero.
    pub(super) fn locate(&self, at: usize) -> (usize, usize) {
        let line = self.lines.partition_point(|start| *start <= at).saturating_sub(1);
        (line, at - self.lines.get(line).copied().unwrap_or(0))
    }

    /// Returns a line whose secrets are replaced, character for character.
    pub(super) fn masked_line(&self, line: usize, star: impl Fn(char) -> char) -> String {
        let (text, start) = (self.line(line), self.lines.get(line).copied().unwrap_or(0));
        let mut is_hidden = vec![false; text.len()];
        for part in &self.hidden {
            let from = part.start.clamp(start, start + text.len()) - start;
            let to = part.end.clamp(start, start + text.len()) - start;
            is_hidden[from..to.max(from)].fill(true);
        }
        let characters = text.char_indices();
        characters.map(|(at, shown)| if is_hidden[at] { star(shown) } else { shown }).collect()
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
        if let (Some(part), Some(source)) = (secrets::found_in(value, &name), self.list.last_mut())
        {
            let before = name.len() + 1;
            source.hidden.push(before + part.start..before + part.end);
            remember(&mut self.secrets, &value[part]);
        }
        Span { start: u32::try_from(name.len() + 1).unwrap_or(u32::MAX).min(span.end), ..span }
    }

    /// Hides the secrets of a tree, which belongs to one source.
    pub(super) fn hide_in(&mut self, node: &Node, name: &str) {
        let Self { list, secrets } = self;
        secrets::find(node, name, &mut |found, part| {
            let Some(text) = found.as_scalar().map(|scalar| &scalar.text[part]) else { return };
            remember(secrets, text);
            let Some(source) = list.get_mut(found.span.source as usize) else { return };
            let (start, end) = (found.span.start as usize, found.span.end as usize);
            // With escapes, the notation differs from the text.
            let written = source.text.get(start..end).unwrap_or_default();
            let hidden = match written.find(text) {
                Some(at) => start + at..start + at + text.len(),
                None => start..end,
            };
            source.hidden.push(hidden);
        });
        // The anchor of an alias that is a secret.
        secrets::scalars(node, &mut |found, text| {
            if let Some(source) = list.get_mut(found.span.source as usize)
                && secrets.contains(text)
            {
                source.hidden.push(found.span.start as usize..found.span.end as usize);
            }
        });
    }

    /// Hides everything from the first word for a secret in a text that is not YAML.
    pub(super) fn hide_rest(&mut self, from: Span, certainly: bool) {
        let Some(source) = self.list.get_mut(from.source as usize) else { return };
        let start = from.start as usize;
        let rest = source.text.get(start..).unwrap_or_default();
        let first = if certainly { Some(0) } else { secrets::first_in(rest) };
        let hidden = first.map(|at| start + at..source.text.len());
        source.hidden.extend(hidden);
    }

    pub(super) fn secrets(&self) -> &BTreeSet<String> {
        &self.secrets
    }

    pub(super) fn get(&self, span: Span) -> Option<&Source> {
        self.list.get(span.source as usize)
    }
}

/// Shorter secrets would hide parts of other words in messages. They are hidden in excerpts only.
const REMEMBERED_MIN: usize = 3;

/// Every message is compared with all of them.
const REMEMBERED_MAX: usize = 10_000;

fn remember(secrets: &mut BTreeSet<String>, text: &str) {
    // Lines are quoted separately.
    let lines = text.lines().map(str::trim);
    for text in lines.chain([text]).filter(|text| text.len() >= REMEMBERED_MIN) {
        if secrets.len() < REMEMBERED_MAX {
            secrets.insert(text.to_owned());
        }
    }
}
