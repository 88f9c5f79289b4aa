//! The formats of logs, and how one is recognized.

use super::csv::Columns;
use super::fields::FieldNames;
use super::pattern::LinePattern;
use super::record::Record;
use super::{common, json};

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogFormat {
    /// The common log format, also with the fields of the combined one.
    Common,
    /// One JSON object per line.
    Json,
    /// Comma-separated values with a header line.
    Csv,
    /// The trace format of the conformance tests.
    Trace,
}

impl LogFormat {
    /// Names of formats, as on the command line.
    pub const NAMES: [(&'static str, Self); 5] = [
        ("common", Self::Common),
        ("combined", Self::Common),
        ("json", Self::Json),
        ("csv", Self::Csv),
        ("trace", Self::Trace),
    ];

    /// Returns the format with this name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().find(|(known, _)| *known == name).map(|(_, format)| *format)
    }

    /// Recognizes the format from the beginning of a file. `fields` are the columns that CSV may have.
    pub(crate) fn detect(start: &[u8], fields: &FieldNames) -> Self {
        let text = String::from_utf8_lossy(start);
        let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim();
        if line.starts_with('{') {
            // A trace is one object over many lines, or names its steps in the first.
            let is_whole = line.ends_with('}') && serde_json::from_str::<Object>(line).is_ok();
            let is_trace = text.contains("\"steps\"") && text.contains("\"policy\"");
            return if is_trace && (!is_whole || line.contains("\"steps\"")) {
                Self::Trace
            } else {
                Self::Json
            };
        }
        let is_csv = line.contains([',', ';', '\t']) && !line.contains('[');
        if is_csv && Columns::read(line, fields).is_ok() { Self::Csv } else { Self::Common }
    }
}

type Object = serde_json::Map<String, serde_json::Value>;

/// How lines are read.
#[derive(Debug, Clone, Default)]
pub struct LineOptions {
    /// The format. It is recognized if `None`.
    pub format: Option<LogFormat>,
    /// A regular expression for lines of any other format.
    pub pattern: Option<LinePattern>,
    /// The format of times, as for `strftime`. The usual ones are recognized if `None`.
    pub time_format: Option<String>,
    /// Names of fields and columns.
    pub fields: FieldNames,
}

/// Parses the lines of one file.
#[derive(Debug)]
pub(crate) enum LineParser {
    Common,
    Json,
    /// The columns, once the header line was read.
    Csv(Option<Columns>),
    Pattern,
}

impl LineParser {
    /// Parses a line. Returns `None` for a header line.
    pub(crate) fn parse<'a>(
        &'a mut self,
        line: &'a str,
        options: &LineOptions,
    ) -> Result<Option<Record<'a>>, String> {
        let time_format = options.time_format.as_deref();
        let record = match self {
            Self::Common => common::parse(line),
            Self::Json => json::parse(line, &options.fields, time_format),
            Self::Csv(Some(columns)) => columns.parse(line, time_format),
            Self::Csv(header) => {
                *header = Some(Columns::read(line, &options.fields)?);
                return Ok(None);
            }
            Self::Pattern => match &options.pattern {
                Some(pattern) => pattern.parse(line, time_format),
                None => Err("there is no pattern"),
            },
        };
        Ok(Some(record?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_recognized() {
        let common = "::1 - - [17/May/2015:10:05:03 +0000] \"GET /,; HTTP/1.1\" 200 1";
        for (start, format) in [
            (common, LogFormat::Common),
            ("\n{\"time\":1}\n{\"time\":2}\n", LogFormat::Json),
            ("{\"time\":1,\"steps\":1", LogFormat::Json),
            ("time,client\n1,a\n", LogFormat::Csv),
            ("client\tts\n", LogFormat::Csv),
            ("{\n  \"name\": \"x\",\n  \"policy\": {},\n  \"steps\": [", LogFormat::Trace),
            ("", LogFormat::Common),
        ] {
            let fields = FieldNames::default();
            assert_eq!(LogFormat::detect(start.as_bytes(), &fields), format, "{start}");
        }
        let mut fields = FieldNames::default();
        fields.add("time=when").unwrap();
        assert_eq!(LogFormat::detect(b"when,client\n1,a\n", &fields), LogFormat::Csv);
    }
}
