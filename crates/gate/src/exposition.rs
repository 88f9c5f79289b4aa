//! A page of metrics in the text form of Prometheus.

use core::fmt::Write;
use core::time::Duration;
use std::collections::HashSet;

/// A page of metrics. Label values must come from configuration, or their number has no bound.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    name: &'static str,
    families: HashSet<&'static str>,
}

/// What a family of samples is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts by bound.
    Histogram,
}

impl Page {
    /// An empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a family; what follows belongs to it. One that was there already gets no second head,
    /// but its samples belong together: write them together.
    pub fn family(&mut self, name: &'static str, kind: Kind, help: &str) {
        self.name = name;
        if !self.families.insert(name) {
            return;
        }
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        };
        // Writing to a string does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A number.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.head("", labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    /// A time, in seconds.
    pub fn seconds(&mut self, labels: &[(&str, &str)], value: Duration) {
        self.head("", labels, None);
        self.write_seconds(value);
    }

    /// A share of a whole, in parts of a million; none of nothing.
    pub fn ratio(&mut self, labels: &[(&str, &str)], part: u64, whole: u64) {
        let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
        self.head("", labels, None);
        let (ones, rest) = (millionths / 1_000_000, millionths % 1_000_000);
        let _ = writeln!(self.text, " {ones}.{rest:06}");
    }

    /// How many were at most each bound, in nanoseconds; the last number is of all.
    pub fn histogram(
        &mut self,
        labels: &[(&str, &str)],
        bounds: &[u64],
        cumulative: &[u64],
        sum: Duration,
    ) {
        for (bound, count) in bounds.iter().zip(cumulative) {
            let bound = Duration::from_nanos(*bound);
            let bound = format!("{}.{:06}", bound.as_secs(), bound.subsec_micros());
            self.head("_bucket", labels, Some(&bound));
            let _ = writeln!(self.text, " {count}");
        }
        let all = cumulative.last().copied().unwrap_or(0);
        self.head("_bucket", labels, Some("+Inf"));
        let _ = writeln!(self.text, " {all}");
        self.head("_sum", labels, None);
        self.write_seconds(sum);
        self.head("_count", labels, None);
        let _ = writeln!(self.text, " {all}");
    }

    /// The page.
    pub fn finish(self) -> String {
        self.text
    }

    fn write_seconds(&mut self, value: Duration) {
        let _ = writeln!(self.text, " {}.{:09}", value.as_secs(), value.subsec_nanos());
    }

    fn head(&mut self, suffix: &str, labels: &[(&str, &str)], bound: Option<&str>) {
        self.text.push_str(self.name);
        self.text.push_str(suffix);
        let labels = labels.iter().copied().chain(bound.map(|bound| ("le", bound)));
        let mut before = '{';
        for (name, value) in labels {
            self.text.push(before);
            before = ',';
            self.text.push_str(name);
            self.text.push_str("=\"");
            push_escaped(&mut self.text, value);
            self.text.push('"');
        }
        if before == ',' {
            self.text.push('}');
        }
    }
}

fn push_escaped(text: &mut String, value: &str) {
    for character in value.chars() {
        match character {
            '\\' => text.push_str("\\\\"),
            '"' => text.push_str("\\\""),
            '\n' => text.push_str("\\n"),
            character => text.push(character),
        }
    }
}

#[cfg(test)]
mod tests;
