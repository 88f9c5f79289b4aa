//! The counts that later runs are compared with.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use crate::Failure;

/// Instructions per check, by workload and subject.
#[derive(Debug, Default)]
pub(crate) struct Record(BTreeMap<String, f64>);

/// How far a count may be off.
const TOLERANCE: f64 = 0.05;

impl Record {
    /// The recorded counts; none when nothing was recorded yet.
    pub(crate) fn load() -> Self {
        let text = fs::read_to_string(path()).unwrap_or_default();
        Self(serde_json::from_str(&text).unwrap_or_default())
    }

    /// Writes the counts, rounded to a tenth.
    pub(crate) fn save(&self) -> Result<(), Failure> {
        let tenth = |value: &f64| (value * 10.0).round() / 10.0;
        let rounded: BTreeMap<&str, f64> =
            self.0.iter().map(|(subject, value)| (subject.as_str(), tenth(value))).collect();
        fs::write(path(), serde_json::to_string_pretty(&rounded)? + "\n")?;
        Ok(())
    }

    /// The count of a subject.
    pub(crate) fn get(&self, subject: &str) -> Option<f64> {
        self.0.get(subject).copied()
    }

    /// Sets the count of a subject.
    pub(crate) fn set(&mut self, subject: &str, instructions: f64) {
        self.0.insert(subject.to_owned(), instructions);
    }

    /// Says what is wrong when a count is missing or too far off `recorded`, up or down: a count
    /// that fell should be recorded, or the next rise would hide behind it.
    pub(crate) fn compare(&self, recorded: &Self, subject: &str) -> Result<(), String> {
        let (Some(now), Some(before)) = (self.get(subject), recorded.get(subject)) else {
            return Err(format!("{subject}: nothing recorded, use --record"));
        };
        if (now - before).abs() <= before * TOLERANCE {
            return Ok(());
        }
        Err(format!("{subject}: {now:.1} instructions a check, but {before:.1} are recorded"))
    }
}

/// In the folder of this package; cargo says where that is.
fn path() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| "bench".into());
    PathBuf::from(folder).join("instructions.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(instructions: f64) -> Record {
        let mut record = Record::default();
        record.set("log", instructions);
        record
    }

    #[test]
    fn five_percent_either_way_pass() {
        for (now, passes) in [(200.0, true), (209.0, true), (191.0, true), (211.0, false)] {
            assert_eq!(record(now).compare(&record(200.0), "log").is_ok(), passes, "{now}");
        }
        assert!(record(180.0).compare(&record(200.0), "log").is_err());
        assert!(record(200.0).compare(&Record::default(), "log").is_err());
    }
}
