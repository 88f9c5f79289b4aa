//! Reads requests from logs, in the order of time.

mod common;
mod csv;
mod fields;
mod filter;
mod format;
mod json;
mod key;
mod lines;
mod open;
mod order;
mod pattern;
mod record;
mod time;
mod trace;

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde::Serialize;
use slidegate::Quota;

pub use self::fields::FieldNames;
pub use self::filter::Filter;
use self::format::LineParser;
pub use self::format::{LineOptions, LogFormat};
pub use self::key::KeyTemplate;
use self::lines::{LineEnd, Lines};
use self::order::Reorder;
pub use self::pattern::LinePattern;
pub use self::record::Record;
pub use self::time::format_time;
use self::trace::{TraceItem, TraceReader};

/// The most files that are read at once.
pub const FILES_MAX: usize = 1024;

/// The largest trace.
const TRACE_BYTES_MAX: u64 = 64 << 20;

/// Unreadable lines that are shown.
const EXAMPLES_MAX: usize = 5;

/// Something with a time, in milliseconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timed<T> {
    /// When.
    pub at_ms: u64,
    /// What.
    pub item: T,
}

/// What a record becomes.
#[derive(Debug)]
pub enum Extracted<T> {
    /// A request that is replayed.
    Request(T),
    /// A request that the filter leaves out.
    Filtered,
    /// A request without a key.
    WithoutKey,
    /// A request that makes no sense, and why.
    Unreadable(String),
}

/// What was read, and what could not be.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ReadCounts {
    /// Lines, or steps of traces.
    pub lines: u64,
    /// Lines that are not empty and could not be read.
    pub unreadable: u64,
    /// The first unreadable lines.
    pub unreadable_examples: Vec<UnreadableLine>,
    /// Requests that the filter left out.
    pub filtered: u64,
    /// Requests without a key.
    pub without_key: u64,
    /// Requests that were out of order by more than the bound, and got the time of the request before.
    pub late: u64,
    /// Files that could not be read to their end, and why.
    pub incomplete: Vec<String>,
}

impl ReadCounts {
    fn add_unreadable(&mut self, file: &str, line: u64, why: String) {
        self.unreadable += 1;
        if self.unreadable_examples.len() < EXAMPLES_MAX {
            self.unreadable_examples.push(UnreadableLine { file: file.to_owned(), line, why });
        }
    }
}

/// A line that could not be read.
#[derive(Debug, Clone, Serialize)]
pub struct UnreadableLine {
    /// The file.
    pub file: String,
    /// The number of the line, from 1.
    pub line: u64,
    /// Why.
    pub why: String,
}

/// Reads requests from logs and puts them into the order of time.
#[derive(Debug)]
pub struct LogReader<T> {
    inputs: Vec<Input<T>>,
    options: LineOptions,
    order: Reorder<T>,
    counts: ReadCounts,
    bytes: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Input<T> {
    name: String,
    content: Content,
    /// The next request.
    head: Option<Timed<T>>,
    is_started: bool,
}

#[derive(Debug)]
enum Content {
    Lines(Lines, LineParser),
    Trace(TraceReader),
    End,
}

impl<T> LogReader<T> {
    /// Opens files; `-` is standard input. Requests may be out of order by `disorder_ms`.
    ///
    /// # Errors
    ///
    /// Returns the file that cannot be read, and why.
    pub fn open(paths: &[PathBuf], options: LineOptions, disorder_ms: u64) -> Result<Self, String> {
        if paths.len() > FILES_MAX {
            let count = paths.len();
            return Err(format!("{count} files are too many: use at most {FILES_MAX}"));
        }
        let bytes = Arc::default();
        let open = |path: &PathBuf| {
            let failed = |error: io::Error| format!("cannot read {}: {error}", path.display());
            open_input(path, &options, &bytes).map_err(failed)
        };
        let inputs = paths.iter().map(open).collect::<Result<_, String>>()?;
        let order = Reorder::new(disorder_ms);
        Ok(Self { inputs, options, order, counts: ReadCounts::default(), bytes })
    }

    /// Returns the quotas of the first trace, or none.
    pub fn trace_quotas(&self) -> Vec<Quota> {
        let quotas = self.inputs.iter().find_map(|input| match &input.content {
            Content::Trace(trace) => Some(trace.quotas()),
            _ => None,
        });
        quotas.unwrap_or_default()
    }

    /// Returns the counter of bytes that were read, for a progress bar.
    pub fn bytes_read(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes)
    }

    /// Replaces `requests` by up to `count` further requests in the order of time. `extract` makes a
    /// request of a record. Without further requests, the list is empty.
    pub fn fill(
        &mut self,
        requests: &mut Vec<Timed<T>>,
        count: usize,
        mut extract: impl FnMut(&Record<'_>) -> Extracted<T>,
    ) {
        requests.clear();
        for input in &mut self.inputs {
            if !input.is_started {
                input.is_started = true;
                input.advance(&self.options, &mut self.counts, &mut extract);
            }
        }
        while requests.len() < count {
            if let Some(request) = self.order.pop() {
                requests.push(request);
                continue;
            }
            let heads = self.inputs.iter_mut().filter(|input| input.head.is_some());
            let first = heads.min_by_key(|input| input.head.as_ref().map(|head| head.at_ms));
            if let Some(input) = first
                && let Some(head) = input.head.take()
            {
                self.order.push(head.at_ms, head.item);
                input.advance(&self.options, &mut self.counts, &mut extract);
            } else if let Some(request) = self.order.pop_rest() {
                requests.push(request);
            } else {
                break;
            }
        }
        self.counts.late = self.order.late;
    }

    /// Returns what was read so far.
    pub fn counts(&self) -> &ReadCounts {
        &self.counts
    }
}

fn open_input<T>(
    path: &Path,
    options: &LineOptions,
    bytes: &Arc<AtomicU64>,
) -> io::Result<Input<T>> {
    let name = if path.as_os_str() == "-" {
        "standard input".to_owned()
    } else {
        path.display().to_string()
    };
    let mut stream = open::open(path, bytes)?;
    let format = match (&options.pattern, options.format) {
        (Some(_), _) => None,
        (None, Some(format)) => Some(format),
        (None, None) => Some(LogFormat::detect(stream.fill_buf()?, &options.fields)),
    };
    let parser = match format {
        None => LineParser::Pattern,
        Some(LogFormat::Common) => LineParser::Common,
        Some(LogFormat::Json) => LineParser::Json,
        Some(LogFormat::Csv) => LineParser::Csv(None),
        Some(LogFormat::Trace) => {
            let mut text = Vec::new();
            stream.take(TRACE_BYTES_MAX).read_to_end(&mut text)?;
            let not_a_trace = || {
                io::Error::other("not a trace: see conformance/README.md, or name another --format")
            };
            let trace = TraceReader::parse(&text).ok_or_else(not_a_trace)?;
            let content = Content::Trace(trace);
            return Ok(Input { name, content, head: None, is_started: false });
        }
    };
    let content = Content::Lines(Lines::new(stream), parser);
    Ok(Input { name, content, head: None, is_started: false })
}

impl<T> Input<T> {
    /// Reads on until there is a request or the input has ended.
    fn advance(
        &mut self,
        options: &LineOptions,
        counts: &mut ReadCounts,
        extract: &mut impl FnMut(&Record<'_>) -> Extracted<T>,
    ) {
        loop {
            let (number, result) = match &mut self.content {
                Content::End => return,
                Content::Trace(trace) => {
                    let number = trace.step();
                    let Some(item) = trace.next() else {
                        self.content = Content::End;
                        return;
                    };
                    let TraceItem::Request(record) = item else {
                        counts.lines += 1;
                        counts.filtered += 1;
                        continue;
                    };
                    (number, Ok(Some((record.at_ms, extract(&record)))))
                }
                Content::Lines(lines, parser) => {
                    let end = lines.advance();
                    match end {
                        Ok(LineEnd::End) => {
                            self.content = Content::End;
                            return;
                        }
                        Err(error) => {
                            let line = lines.count + 1;
                            let why = format!("{}, line {line}: {error}", self.name);
                            counts.incomplete.push(why);
                            self.content = Content::End;
                            return;
                        }
                        Ok(LineEnd::TooLong) => {
                            (lines.count, Err("the line is longer than 64 KiB".to_owned()))
                        }
                        Ok(LineEnd::Line) if lines.line().trim_ascii().is_empty() => {
                            counts.lines += 1;
                            continue;
                        }
                        Ok(LineEnd::Line) => {
                            let text = String::from_utf8_lossy(lines.line());
                            let parsed = parser.parse(&text, options);
                            let at = |record: Record<'_>| (record.at_ms, extract(&record));
                            (lines.count, parsed.map(|record| record.map(at)))
                        }
                    }
                }
            };
            counts.lines += 1;
            match result {
                Ok(Some((at_ms, Extracted::Request(item)))) => {
                    self.head = Some(Timed { at_ms, item });
                    return;
                }
                Ok(Some((_, Extracted::Filtered))) => counts.filtered += 1,
                Ok(Some((_, Extracted::WithoutKey))) => counts.without_key += 1,
                Ok(None) => {}
                Ok(Some((_, Extracted::Unreadable(why)))) | Err(why) => {
                    counts.add_unreadable(&self.name, number, why);
                }
            }
        }
    }
}

/// Returns the sum of the sizes of files. Returns `None` if one of them has no size, as standard input.
pub fn total_bytes(paths: &[PathBuf]) -> Option<u64> {
    let size = |path: &PathBuf| {
        let file = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file)?;
        Some(file.len())
    };
    paths.iter().map(size).sum()
}
