//! `simulate`: replays logs or generated traffic through the algorithms.

mod advice;
mod arguments;
mod config;
mod progress;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use slidegate::{Algorithm, Quota};
use slidegate_sim::Source;
use slidegate_sim::number::to_float;
use slidegate_sim::read::{Filter, KeyTemplate, LineOptions, LogReader, ReadCounts, total_bytes};
use slidegate_sim::replay::{ALGORITHMS, BATCH, Replay, SINGLE_MAX, Scenario};
use slidegate_sim::report::{
    Report, Subject, config_to_html, to_html, window_to_svg, write_config_table, write_table,
};
use slidegate_sim::traffic::TrafficSpec;

use self::arguments::ReadArguments;
pub(super) use self::arguments::SimulateArguments;
use self::progress::Progress;
use super::exit;

/// The error of a simulation, and the exit code.
struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit::USAGE }
    }

    fn failed(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: exit::FAILED }
    }
}

pub(super) fn run(arguments: &SimulateArguments) -> u8 {
    match simulate(arguments) {
        Ok(code) => code,
        Err(Failure { message, code }) => super::failed(&message, code),
    }
}

fn simulate(arguments: &SimulateArguments) -> Result<u8, Failure> {
    for path in [&arguments.html, &arguments.svg].into_iter().flatten() {
        super::check_writable(path).map_err(Failure::failed)?;
    }
    if arguments.config.is_empty() {
        return compare_algorithms(arguments);
    }
    let report = config::replay(arguments)?;
    write_page(arguments, || config_to_html(&report))?;
    let mut out = io::stdout().lock();
    let written = if arguments.json {
        write_json(&report, &mut out)
    } else {
        write_config_table(&report, &mut out)
    };
    Ok(super::config::written(written, code_of(&report.counts)))
}

/// Returns the exit code after a replay that read this much.
fn code_of(counts: &ReadCounts) -> u8 {
    if counts.incomplete.is_empty() { exit::OK } else { exit::FAILED }
}

fn compare_algorithms(arguments: &SimulateArguments) -> Result<u8, Failure> {
    advice::check(arguments)?;
    let Input { mut source, mut subject, key } = Input::open(arguments)?;
    let algorithms = match arguments.algorithms.as_slice() {
        [] => ALGORITHMS.to_vec(),
        given => given.to_vec(),
    };
    let mut replay =
        Replay::new(&scenarios(arguments, &subject.quotas, &algorithms)).map_err(Failure::usage)?;
    let progress = Progress::new(source.progress().is_some());
    let mut batch = Vec::new();
    loop {
        source.fill(&mut batch, BATCH, replay.keys());
        if batch.is_empty() {
            break;
        }
        replay.play(&batch);
        progress.show(source.progress(), || format!("{} requests", replay.requests()));
    }
    progress.end();
    let counts = source.counts();
    if replay.requests() == 0 {
        return Err(Failure::failed(nothing_to_replay(&counts)));
    }
    let outcome = replay.finish();
    let seconds = to_float(outcome.last_ms - outcome.first_ms) / 1000.0;
    if arguments.traffic.is_some() && seconds > 0.0 {
        let rate = to_float(outcome.requests) / seconds;
        subject.input = format!("{}, {rate:.2} requests per second", subject.input);
    }
    let hits = usize::from(arguments.top);
    let mut report = Report::new(outcome, counts, &subject, algorithms.len(), hits);
    report.advice = advice::advise(arguments, &subject, &key)?;
    write_page(arguments, || to_html(&report))?;
    write_chart(arguments, &report)?;
    let mut out = io::stdout().lock();
    let written =
        if arguments.json { write_json(&report, &mut out) } else { write_table(&report, &mut out) };
    Ok(super::config::written(written, code_of(&report.counts)))
}

/// Writes the page if it was asked for.
fn write_page(arguments: &SimulateArguments, page: impl FnOnce() -> String) -> Result<(), Failure> {
    let Some(path) = &arguments.html else { return Ok(()) };
    write_file(path, &page())
}

/// Draws the sliding window if it was asked for.
fn write_chart(arguments: &SimulateArguments, report: &Report) -> Result<(), Failure> {
    let Some(path) = &arguments.svg else { return Ok(()) };
    let Some(svg) = window_to_svg(report) else {
        return Err(Failure::failed(format!(
            "--svg draws every request, and {} are too many: replay at most {SINGLE_MAX}, for example with \
             --path or --traffic NAME:requests=100",
            report.requests
        )));
    };
    write_file(path, &svg)
}

fn write_file(path: &Path, text: &str) -> Result<(), Failure> {
    std::fs::write(path, text)
        .map_err(|error| Failure::failed(format!("cannot write {}: {error}", path.display())))
}

fn write_json(report: &impl Serialize, out: &mut dyn Write) -> io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, report)?;
    writeln!(out)
}

fn nothing_to_replay(counts: &ReadCounts) -> String {
    let mut lines = vec![format!(
        "there is no request to replay: of {} lines, {} are unreadable, {} were left out by the filter, \
         {} have no key",
        counts.lines, counts.unreadable, counts.filtered, counts.without_key
    )];
    for example in &counts.unreadable_examples {
        lines.push(format!("  {}, line {}: {}", example.file, example.line, example.why));
    }
    lines.extend(counts.incomplete.iter().map(|file| format!("  incomplete: {file}")));
    lines.join("\n")
}

/// The limits that are simulated: those that were asked for with all algorithms, and each other limit with
/// the first.
fn scenarios(
    arguments: &SimulateArguments,
    quotas: &[Quota],
    algorithms: &[Algorithm],
) -> Vec<Scenario> {
    let what_if = |quota: &Quota| Scenario {
        quotas: vec![*quota],
        algorithms: algorithms.iter().take(1).copied().collect(),
    };
    let main = Scenario { quotas: quotas.to_vec(), algorithms: algorithms.to_vec() };
    core::iter::once(main).chain(arguments.what_if.iter().map(what_if)).collect()
}

/// Requests, and their name in reports.
struct Input {
    source: Source,
    subject: Subject,
    /// What requests are counted by.
    key: KeyTemplate,
}

impl Input {
    fn open(arguments: &SimulateArguments) -> Result<Self, Failure> {
        match &arguments.traffic {
            Some(traffic) => Self::traffic(arguments, traffic),
            None => Self::logs(arguments),
        }
    }

    fn traffic(arguments: &SimulateArguments, traffic: &str) -> Result<Self, Failure> {
        let quotas = arguments.quotas.clone();
        let first = *quotas.first().ok_or_else(no_quota)?;
        let spec = TrafficSpec::parse(traffic, first).map_err(Failure::usage)?;
        let input = format!("{} traffic", spec.kind.name());
        let key = KeyTemplate::parse("client").map_err(Failure::usage)?;
        let subject = Subject { input, key: key.to_string(), quotas };
        Ok(Self { source: Source::traffic(spec.start(first)), subject, key })
    }

    fn logs(arguments: &SimulateArguments) -> Result<Self, Failure> {
        let paths = expand(&arguments.files)?;
        let (options, filter) = reading(&arguments.reading)?;
        let has_key = options.pattern.as_ref().is_some_and(|pattern| pattern.has("key"));
        let disorder = arguments.reading.disorder.as_millis();
        let disorder = u64::try_from(disorder).unwrap_or(u64::MAX);
        let reader = LogReader::open(&paths, options, disorder).map_err(Failure::failed)?;
        let traced = reader.trace_quotas();
        let usual = if has_key || !traced.is_empty() { "{key}" } else { "client" };
        let key = match &arguments.key {
            Some(key) => key.clone(),
            None => KeyTemplate::parse(usual).map_err(Failure::usage)?,
        };
        let quotas = if arguments.quotas.is_empty() { traced } else { arguments.quotas.clone() };
        if quotas.is_empty() {
            return Err(no_quota());
        }
        let subject = Subject { input: input_name(&paths), key: key.to_string(), quotas };
        let source = Source::logs(reader, key.clone(), filter, total_bytes(&paths));
        Ok(Self { source, subject, key })
    }
}

/// Returns the name of the input in reports.
fn input_name(paths: &[PathBuf]) -> String {
    match paths {
        [only] if only.as_os_str() == "-" => "standard input".to_owned(),
        [only] => only.display().to_string(),
        many => format!("{} files", many.len()),
    }
}

fn no_quota() -> Failure {
    Failure::usage("no limit is given: use --quota, such as --quota 10/minute")
}

/// Returns how lines are read, and which requests are replayed.
fn reading(arguments: &ReadArguments) -> Result<(LineOptions, Filter), Failure> {
    let mut options = LineOptions {
        format: arguments.format,
        pattern: arguments.pattern.clone(),
        time_format: arguments.time_format.clone(),
        ..LineOptions::default()
    };
    for field in &arguments.fields {
        options.fields.add(field).map_err(Failure::usage)?;
    }
    let mut filter = Filter::default();
    filter.paths.clone_from(&arguments.paths);
    filter.methods.clone_from(&arguments.methods);
    for status in &arguments.statuses {
        filter.add_status(status).map_err(Failure::usage)?;
    }
    Ok((options, filter))
}

/// The files that the arguments name. A pattern expands to all files that match it.
fn expand(files: &[String]) -> Result<Vec<PathBuf>, Failure> {
    let mut paths = Vec::new();
    for file in files {
        let path = PathBuf::from(file);
        if file == "-" || path.exists() || !file.contains(['*', '?', '[']) {
            paths.push(path);
            continue;
        }
        let found = glob::glob(file).map_err(|error| {
            Failure::usage(format!("file pattern {file:?} is not usable: {error}"))
        })?;
        let before = paths.len();
        paths.extend(found.filter_map(Result::ok));
        if paths.len() == before {
            return Err(Failure::failed(format!("no file matches {file:?}")));
        }
    }
    if paths.is_empty() {
        return Err(Failure::usage(
            "no requests are given: name access logs, `-` for standard input, or use --traffic with a pattern",
        ));
    }
    Ok(paths)
}
