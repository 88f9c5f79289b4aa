//! The memory table, for people and for programs.

use crate::json::JsonLine;
use crate::memory::arrivals::WINDOW;
use crate::memory::measurement::Measurement;
use crate::memory::workload::Workload;
use crate::rounding::to_float;
use crate::table::Table;

/// Collects the rows; objects are printed at once, the table at the end.
#[derive(Debug)]
pub(crate) struct Report {
    json: bool,
    table: Table,
}

const HEADINGS: [&str; 10] = [
    "workload",
    "subject",
    "RSS MB",
    "target MB",
    "accounted MB",
    "idle MB",
    "bytes/key",
    "bytes/entry",
    "windows",
    "seconds",
];

impl Report {
    /// An empty report.
    pub(crate) fn new(json: bool) -> Self {
        Self { json, table: Table::new(&HEADINGS) }
    }

    /// Adds what a workload took.
    pub(crate) fn add(&mut self, workload: &Workload, subject: &str, took: &Measurement) {
        let rss = to_float(took.rss);
        let per_key = rss / f64::from(workload.keys);
        let per_entry = (took.entries > 0).then(|| rss / to_float(took.entries));
        if self.json {
            print_json(workload, subject, took, per_key, per_entry);
            return;
        }
        self.table.row(vec![
            workload.name.to_owned(),
            subject.to_owned(),
            megabytes(Some(took.rss)),
            megabytes(workload.target),
            megabytes(took.accounted),
            megabytes(Some(took.idle)),
            format!("{per_key:.1}"),
            per_entry.map_or_else(dash, |bytes| format!("{bytes:.3}")),
            format!("{:.2}", windows(took)),
            took.seconds.to_string(),
        ]);
    }

    /// Prints the table, unless objects were asked for.
    pub(crate) fn finish(self) {
        if !self.json {
            println!();
            self.table.print();
        }
    }
}

fn print_json(
    workload: &Workload,
    subject: &str,
    took: &Measurement,
    per_key: f64,
    per_entry: Option<f64>,
) {
    JsonLine::new("memory")
        .text("workload", workload.name)
        .text("subject", subject)
        .whole("rss_bytes", took.rss)
        .number("bytes_per_key", Some(per_key), 2)
        .number("bytes_per_entry", per_entry, 4)
        .number("accounted_bytes", took.accounted.map(to_float), 0)
        .number("target_bytes", workload.target.map(to_float), 0)
        .whole("idle_rss_bytes", took.idle)
        .whole("peak_rss_bytes", took.peak)
        .whole("keys", u64::from(workload.keys))
        .whole("entries", took.entries)
        .number("windows", Some(windows(took)), 2)
        .whole("seconds", took.seconds)
        .print();
}

/// Windows of requests: the first fills, the others churn.
fn windows(took: &Measurement) -> f64 {
    to_float(took.millis) / to_float(WINDOW)
}

/// Millions of bytes.
fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(dash, |bytes| format!("{:.1}", to_float(bytes) / 1e6))
}

fn dash() -> String {
    "-".to_owned()
}
