//! A page of metrics in the text format of Prometheus.

use core::fmt::Write;
use core::time::Duration;
use std::collections::HashSet;

/// A page of metrics. Label values must come from the configuration, so that their number is
/// bounded.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
    name: &'static str,
    families: HashSet<&'static str>,
}

/// The type of a metric family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// Numbers of observations by bound.
    Histogram,
}

impl Page {
    /// Creates an empty page.
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a family, to which the following samples belong. A repeated family gets no second
    /// header, but all samples of a family must be written together.
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
        // Writing to a string never fails.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a number.
    pub fn sample(&mut self, labels: &[(&str, &str)], value: u64) {
        self.head("", labels, None);
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes a time in seconds.
    pub fn seconds(&mut self, labels: &[(&str, &str)], value: Duration) {
        self.head("", labels, None);
        self.write_seconds(value);
    }

    /// Writes a share of a whole as a decimal with six digits, or zero if the whole is zero.
    pub fn ratio(&mut self, labels: &[(&str, &str)], part: u64, whole: u64) {
        let millionths = u128::from(part) * 1_000_000 / u128::from(whole.max(1));
        self.head("", labels, None);
        let (ones, rest) = (millionths / 1_000_000, millionths % 1_000_000);
        let _ = writeln!(self.text, " {ones}.{rest:06}");
    }

    /// Writes the number of observations up to each bound, in nanoseconds. The last number counts
    /// all.
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

    /// Returns the page.
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
